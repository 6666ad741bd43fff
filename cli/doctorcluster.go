package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/internal/kubectl"
)

// clusterDiagnosis is the result of doctor for a cluster. `doctor --cluster --output json` prints it.
type clusterDiagnosis struct {
	Cluster   string             `json:"cluster"`
	Version   string             `json:"version"`
	Namespace string             `json:"namespace,omitempty"` // "": rights hold in all of them
	Rights    []kubernetes.Right `json:"rights"`
	Verdict   string             `json:"verdict"`
}

// doctorCluster says what a user may measure on a cluster.
func doctorCluster(ctx context.Context, std Streams, of, namespace, format string) error {
	d := clusterDiagnosis{Namespace: namespace}
	var err error
	if d.Cluster, d.Version, d.Rights, err = kubernetes.Rights(ctx, kubectl.Options{Context: of}, namespace); err != nil {
		return err
	}
	needed := slices.ContainsFunc(d.Rights, func(r kubernetes.Right) bool { return r.Needed && !r.Granted })
	some := slices.ContainsFunc(d.Rights, func(r kubernetes.Right) bool { return !r.Granted })
	switch {
	case needed:
		d.Verdict = "no run is possible: rights are missing (packaging/kubernetes has them)"
	case some:
		d.Verdict = "runs are possible, but not all of what they can measure"
	default:
		d.Verdict = "runs are possible"
	}
	switch format {
	case "json":
		err = writeJSON(std.Out, d)
	case "jsonl", "csv":
		s := sheet{columns: []string{"what", "granted", "needed", "without"}}
		for _, r := range d.Rights {
			s.objects = append(s.objects, r)
			s.rows = append(s.rows, []string{r.What, strconv.FormatBool(r.Granted), strconv.FormatBool(r.Needed), r.Without})
		}
		err = s.write(std.Out, format)
	default:
		err = d.write(std.Out)
	}
	if err == nil && needed {
		err = status(exitFailed)
	}
	return err
}

func (d clusterDiagnosis) write(out io.Writer) error {
	where := "in all namespaces"
	if d.Namespace != "" {
		where = "in namespace " + d.Namespace
	}
	fmt.Fprintf(out, "%s\n\ncluster %s, Kubernetes %s: your rights %s\n", d.Verdict, d.Cluster, d.Version, where)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range d.Rights {
		if r.Granted {
			fmt.Fprintf(w, "  %s\tgranted\n", r.What)
		} else {
			fmt.Fprintf(w, "✗ %s\tmissing: %s\n", r.What, r.Without)
		}
	}
	return w.Flush()
}
