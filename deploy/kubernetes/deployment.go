package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/remote"
)

const (
	// openLimit is how long it may take until a scout runs on each node: nodes may have to pull the image.
	openLimit = 3 * time.Minute
	// orphaned is when the cluster ends scouts whose run was killed before all of them had started: later than a run that
	// lives gives up.
	orphaned = openLimit + time.Minute
	// callLimit is how long a question to a scout may take.
	callLimit = 10 * time.Second
	// together is how many processes are started in pods at the same time.
	together = 16
)

// A Deployment builds labs in the pods of a cluster. Set its fields before use. It reaches the cluster when the first
// method needs it.
type Deployment struct {
	// Options say how kubectl reaches the cluster.
	Options kubectl.Options
	// Namespace of all pods; "": one is made, and removed by Close.
	Namespace string
	// Image of all pods, which holds this program.
	Image string
	// Hosts is the number of nodes.
	Hosts int
	// Privileged says that a namespace that is made has to allow pods that share the network of their node.
	Privileged bool
	// Monitor has the counters of nodes read, by a pod on each that shares the network and the processes of its node.
	Monitor bool
	// Taps has these pods listen to what nodes get from each other during proofs, for which they have CAP_NET_RAW.
	Taps bool
	// Secondary are the NetworkAttachmentDefinitions (NAMESPACE/NAME) that stacks name. Facts say what they are.
	Secondary []string
	// Say, if not nil, is told what the deployment waits for.
	Say func(text string)

	opening   sync.Mutex
	client    *kubectl.Client // nil before it is open
	run       string          // distinguishes the run from others in the cluster
	namespace string
	scouts    jobSpec // without pods if there are none
	policed   bool    // policies choose scouts
	owner     object  // a reference to the first Job of the scouts: it goes last, and the cluster removes what it owns
	within    object  // a reference to the namespace, if it was made; nil if not
	nodes     []node  // host 1 first
	cluster   map[string]any
	serial    atomic.Int64 // of its Jobs
	monitors  string       // the DaemonSet of the monitors; "": there are none
	prefix    string       // of the names of nodes, if there are several clusters
	admin     *adminKind   // the policies of the whole cluster that it serves; nil: none, or adminErr says why not known
	adminErr  error
	usesAdmin atomic.Bool // the run has made some

	scouting sync.Mutex          // of the scouts of nodes, once it is open
	watching sync.Mutex          // of the monitors of nodes
	owning   sync.Mutex          // of pods
	pods     map[string][]placed // the run's pods, by their Job or DaemonSet
}

var _ deploy.Standing = (*Deployment)(nil)

// A node is a host.
type node struct {
	name       string
	pod        string     // of its scout
	ipv4, ipv6 netip.Addr // not valid if it has none
	scout      *running
	monitor    *running // nil: it has none
	about      about
	facts      map[string]any // that its object has
	room       int            // the number of pods that may be on it, 0 if that is not known
}

// open reaches the cluster and puts a scout on each node.
func (d *Deployment) open(ctx context.Context) (err error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.client != nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openLimit, fmt.Errorf("no pod on each of %d nodes within %v", d.Hosts,
		openLimit))
	defer cancel()
	if d.client, err = kubectl.Open(ctx, d.Options); err != nil {
		d.client = nil
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("cluster %q: %w", d.client.Context(), err), d.close())
		}
	}()
	if err := d.station(ctx); err != nil {
		return err
	}
	if err := d.each(ctx, len(d.nodes), "scouts answer", func(ctx context.Context, i int) (err error) {
		n := &d.nodes[i]
		if n.scout, err = d.start(ctx, "scout of "+n.name, n.pod, ScoutCommand); err != nil {
			return err
		}
		n.facts, n.room = d.readNode(ctx, n.name)
		return n.scout.Call(ctx, methodAbout, nil, &n.about)
	}); err != nil {
		return err
	}
	if d.Monitor {
		if err := d.watchNodes(ctx); err != nil {
			return err
		}
	}
	d.cluster = d.readSettings(ctx).facts()
	maps.Copy(d.cluster, map[string]any{
		"cluster": d.client.Context(), "kubernetes": d.client.Version(), "image": d.Image,
	})
	if d.Namespace != "" { // else it is another one in each part of a run
		d.cluster["namespace"] = d.Namespace
	}
	if all := describeDefinitions(ctx, d.client.Get, d.Secondary); all != nil {
		d.cluster["secondary_networks"] = all
	}
	if plugins := d.plugins(ctx); plugins != nil {
		d.cluster["network_plugins"] = plugins
	}
	if d.admin, d.adminErr = findAdmin(ctx, d.client.Get); d.admin != nil {
		d.cluster[adminPolicies] = d.admin.String()
	}
	return nil
}

// station makes the namespace, unless it is named, and a pod for a scout on each node.
func (d *Deployment) station(ctx context.Context) error {
	secret := make([]byte, 4)
	_, _ = rand.Read(secret) // never fails
	d.run = hex.EncodeToString(secret)
	if d.namespace = d.Namespace; d.namespace == "" {
		name := "nettoll-" + d.run
		var made identity
		if err := d.client.Create(ctx, core+"/namespaces", namespaceOf(name, d.run, d.Privileged), &made); err != nil {
			return fmt.Errorf("make a namespace (hosts.namespace names one that exists): %w", err)
		}
		d.namespace = name
		d.within = object{"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": made.Metadata.UID}
	}
	scouts := jobSpec{name: d.jobName("scouts"), run: d.run, image: d.Image, pods: d.Hosts, apart: d.policed}
	// Without the right the limit could not be taken away again. A cluster that does not say grants nothing.
	may, _ := granted(ctx, d.client, d.namespace, toUnlimit())
	if may {
		scouts.limit = orphaned
	}
	all, err := d.create(ctx, jobLabel, scouts.name, scouts)
	if err != nil {
		return err
	}
	d.scouts = scouts
	if may {
		names := scouts.names() // their pods run, and end by themselves
		if err := d.each(ctx, len(names), "jobs have no limit any more", func(ctx context.Context, i int) error {
			err := d.client.Change(ctx, d.path(batch, "jobs")+"/"+names[i], object{"spec": object{limitField: nil}})
			if err != nil {
				return fmt.Errorf("take the limit of job %q away: %w", names[i], err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	var made identity
	name := scouts.names()[0]
	if err := d.client.Get(ctx, d.path(batch, "jobs")+"/"+name, &made); err != nil {
		return fmt.Errorf("look at job %q: %w", name, err)
	}
	d.owner = object{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made.Metadata.UID}
	// The hosts of a run that is resumed are on the nodes on which they were.
	pods := all[0]
	slices.SortFunc(pods, func(a, b pod) int { return cmp.Compare(a.Spec.Node, b.Spec.Node) })
	d.nodes = make([]node, len(pods))
	for i, p := range pods {
		n := &d.nodes[i]
		n.name, n.pod = p.Spec.Node, p.Metadata.Name
		n.ipv4, n.ipv6 = p.node()
	}
	return nil
}

// each calls f for numbers from 0, some at the same time, until one fails. What says how many have succeeded.
func (d *Deployment) each(ctx context.Context, n int, what string, f func(ctx context.Context, i int) error) error {
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(together)
	var mu sync.Mutex
	wait, done := d.waiting(), 0
	for i := range n {
		group.Go(func() error {
			if err := f(inGroup, i); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if done++; done < n {
				wait.say(func() string { return fmt.Sprintf("%d of %d %s", done, n, what) })
			}
			return nil
		})
	}
	return group.Wait()
}

// identity is what the API tells of an object that others refer to.
type identity struct {
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
}

// jobName returns the name of a Job that no other run has.
func (d *Deployment) jobName(what string) string {
	return fmt.Sprintf("nettoll-%s-%d-%s", d.run, d.serial.Add(1), what)
}

// known are network plugins by names in images of theirs that run on every node.
var known = regexp.MustCompile(`(?:^|/)(cilium|calico/node|flannel|kube-router|weave-kube|antrea-[\w-]+|kindnetd|` +
	`amazon-k8s-cni|azure-cns|multus-cni|kube-ovn)(?::([\w.-]+))?(?:@|$)`)

// plugins returns the images of network plugins, such as "cilium:v1.19.1", as far as the user may see them; nil if none
// is known.
func (d *Deployment) plugins(ctx context.Context) []string {
	var list struct {
		Items []struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Image string `json:"image"`
						} `json:"containers"`
					} `json:"spec"`
				} `json:"template"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := d.client.Get(ctx, "/apis/apps/v1/daemonsets", &list); err != nil {
		return nil
	}
	found := map[string]bool{}
	for _, set := range list.Items {
		for _, c := range set.Spec.Template.Spec.Containers {
			if m := known.FindStringSubmatch(c.Image); m != nil {
				found[strings.TrimSuffix(m[1]+":"+m[2], ":")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// AsBuilt implements [deploy.Standing].
func (*Deployment) AsBuilt() string {
	return "the pods are those that were made, they run, and have their addresses"
}

// CPUs returns the CPUs that every node has.
func (d *Deployment) CPUs(ctx context.Context) ([]int, error) {
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	return common(d.nodes)
}

// common returns the numbers of CPUs that all nodes have.
func common(nodes []node) ([]int, error) {
	cpus := nodes[0].about.CPUs
	for _, n := range nodes[1:] {
		cpus = slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return !slices.Contains(n.about.CPUs, cpu) })
	}
	if len(cpus) == 0 {
		return nil, errors.New("the nodes have no CPU numbers in common")
	}
	return cpus, nil
}

// Machines returns the nodes.
func (d *Deployment) Machines(ctx context.Context, hosts int) ([]deploy.Machine, error) {
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	list := make([]deploy.Machine, 0, hosts)
	for i, n := range d.nodes[:min(hosts, len(d.nodes))] {
		m := deploy.Machine{
			Name: n.name, Hosts: []string{network.Host{Index: i + 1}.Name()}, Facts: maps.Clone(n.about.Facts),
		}
		m.Facts["node"] = n.name
		if n.monitor != nil {
			m.Facts["monitor"] = "its counters are read by a pod that shares its network and its processes"
		}
		maps.Copy(m.Facts, n.facts)
		if i == 0 {
			maps.Copy(m.Facts, d.cluster)
		}
		list = append(list, m)
	}
	return list, nil
}

// Check reaches the cluster, which says whether labs can be built: they are all made of pods like the scouts, but for
// second interfaces and policies of the whole cluster.
func (d *Deployment) Check(ctx context.Context, labs []deploy.Spec) ([]error, error) {
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	return d.check(ctx, labs), nil
}

// check says of each of the labs of the cluster, which stand at the same time, why it does not; nil if it does.
func (d *Deployment) check(ctx context.Context, labs []deploy.Spec) []error {
	full := crowded(d.nodes, labs)
	wrong := make([]error, len(labs))
	for i, l := range labs {
		if wrong[i] = full; full == nil {
			wrong[i] = d.possible(ctx, l.Stack)
		}
	}
	return wrong
}

// possible returns nil, or what a stack needs and the cluster, or the user, does not have.
func (d *Deployment) possible(ctx context.Context, of stack.Stack) error {
	if err := attachable(ctx, d.client.Get, of); err != nil {
		return err
	}
	return d.admissible(ctx, of)
}

// crowded returns nil, or why labs do not stand on nodes at the same time: a node has room for a number of pods. Where
// others have pods too, there is less room than that.
func crowded(nodes []node, labs []deploy.Spec) error {
	for i, n := range nodes {
		pods := 1 // the scout
		for _, l := range labs {
			if i < len(l.Net.Hosts) {
				pods += len(l.Net.Hosts[i].Containers)
			}
		}
		if n.room > 0 && pods > n.room {
			return &linux.UnsupportedError{
				What:    fmt.Sprintf("run %d pods on node %s at the same time", pods, n.name),
				Missing: fmt.Sprintf("room on that node, which may have %d", n.room),
				Hint:    "choose fewer pairs, or fewer stacks in a run",
			}
		}
	}
	return nil
}

// Programs looks for programs in the image.
func (d *Deployment) Programs(ctx context.Context, wanted []deploy.Wanted) ([]deploy.Found, error) {
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	answers := make([]deploy.Found, len(wanted))
	for i, w := range wanted {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		err := d.nodes[0].scout.Call(ctx, methodProgram, w.Needed, &answers[i].Version)
		cancel()
		if _, lacks := errors.AsType[*linux.UnsupportedError](err); lacks {
			answers[i].Err = &linux.UnsupportedError{
				What:    "use " + w.By,
				Missing: fmt.Sprintf("program %q in image %s", w.Program, d.Image),
				Hint:    fmt.Sprintf("nettoll image --with %s makes one that has it", w.Program),
			}
		} else if refused, ok := errors.AsType[*protocol.Error](err); ok {
			answers[i].Err = fmt.Errorf("image %s: %w", d.Image, refused)
		} else if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// Watch asks the scouts how busy their nodes are, and the monitors, if there are some, what else they know.
func (d *Deployment) Watch() (func() []deploy.Load, error) {
	before := d.loads(true)
	return func() []deploy.Load {
		list := make([]deploy.Load, len(d.nodes))
		for i, after := range d.loads(false) {
			l, first := &list[i], before[i]
			l.Machine = d.nodes[i].name
			if first.load != nil && after.load != nil && after.load.At > first.load.At {
				l.CPU = measured(*first.load, *after.load)
				l.Load1 = after.load.Load1
			}
			if after.programs != nil {
				l.Runs = after.programs.Runs
				if after.programs.Known {
					l.Programs = after.programs.Users
				}
			}
			if first.counted == nil || after.counted == nil || after.counted.At <= first.counted.At {
				continue
			}
			l.Memory = after.counted.Memory
			if n := after.counted.Softirqs - first.counted.Softirqs; n > 0 {
				l.Softirqs = float64(n) / time.Duration(after.counted.At-first.counted.At).Seconds()
			}
		}
		return list
	}, nil
}

// scouted returns the scout of a node, which counts from 0. One that has ended is started again: all of them end if the
// API server restarts. The pod of a scout ends soon after it, and what the scouts' Job owns goes with the Job.
func (d *Deployment) scouted(ctx context.Context, i int) (*running, error) {
	n := &d.nodes[i]
	d.scouting.Lock()
	s := n.scout
	d.scouting.Unlock()
	select {
	case <-s.Done():
	default:
		return s, nil
	}
	if why := d.notReady(ctx, n.name); why != "" { // a call to it would hang
		return nil, errors.New(why)
	}
	again, err := d.start(ctx, "scout of "+n.name, n.pod, ScoutCommand)
	if err != nil {
		return nil, err
	}
	d.scouting.Lock()
	defer d.scouting.Unlock()
	n.scout = again
	return again, nil
}

// keepScouts starts scouts that have ended again. It fails if their Job has gone, which owns all that labs have.
func (d *Deployment) keepScouts(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	group := errgroup.Group{}
	group.SetLimit(together)
	for i := range d.nodes {
		if d.nodes[i].scout == nil {
			continue
		}
		group.Go(func() error {
			_, _ = d.scouted(soon, i) // a node that is lost for a moment matters to labs on it only
			return nil
		})
	}
	_ = group.Wait() // never fails
	name := d.scouts.names()[0]
	var still identity
	switch err := d.client.Get(ctx, d.path(batch, "jobs")+"/"+name, &still); {
	case absent(err), err == nil && still.Metadata.UID != d.owner["uid"]:
		return fmt.Errorf("job %q is not there any more: a pod of it has ended, or somebody has removed it", name)
	case err != nil:
		return fmt.Errorf("look at job %q: %w", name, err)
	}
	return nil
}

// told is what is known of a node at a time; nil: not known.
type told struct {
	load     *load
	counted  *traffic.Reading
	programs *programs // since the begin
}

// loads asks all scouts and monitors at the same time, at the begin of a block or at its end.
func (d *Deployment) loads(begin bool) []told {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	all, pods := make([]told, len(d.nodes)), d.owned()
	var group sync.WaitGroup
	for i := range d.nodes {
		group.Go(func() {
			s, err := d.scouted(ctx, i)
			if err != nil {
				return
			}
			var l load
			if s.Call(ctx, methodLoad, nil, &l) == nil {
				all[i].load = &l
			} else if ctx.Err() != nil && d.notReady(context.WithoutCancel(ctx), d.nodes[i].name) != "" {
				_ = s.Kill() // the connection to it may hang
			}
		})
		group.Go(func() {
			m := d.monitored(ctx, i)
			if m == nil {
				return
			}
			var r traffic.Reading
			if m.Call(ctx, methodRead, nil, &r) == nil {
				all[i].counted = &r
			}
			if begin {
				_ = m.Call(ctx, methodBegin, nil, nil) // if that fails, so does the end
				return
			}
			var p programs
			if m.Call(ctx, methodEnd, ours{pods[d.nodes[i].name]}, &p) == nil {
				all[i].programs = &p
			}
		})
	}
	group.Wait()
	return all
}

// Awake is not possible: it is a setting of nodes.
func (d *Deployment) Awake() (func() (float64, error), error) {
	return nil, &linux.UnsupportedError{
		What: "keep CPUs awake", Missing: "a right on the nodes of the cluster", Hint: "idle=deep measures them as they are",
	}
}

// LoadProbe is not possible: it needs root on nodes.
func (d *Deployment) LoadProbe(p probe.Probe) (deploy.LoadedProbe, error) {
	return nil, &linux.UnsupportedError{
		What: "load probe " + p.Describe().Name, Missing: "a right on the nodes of the cluster",
	}
}

// Begin makes the turn of a generation, which passes by calls.
func (d *Deployment) Begin(traffic.Layout) (deploy.Generation, error) {
	turns := remote.New()
	turns.Hush(d.client.Hush)
	d.meter(turns)
	return &generation{Deployment: d, turns: turns}, nil
}

// Close removes the scouts and, if the deployment has made it, the namespace.
func (d *Deployment) Close() error {
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.client == nil {
		return nil
	}
	return d.close()
}

func (d *Deployment) close() error {
	var err error
	for _, n := range d.nodes {
		if n.scout != nil {
			_ = n.scout.Kill() // its pod is removed
		}
		if n.monitor != nil {
			_ = n.monitor.Kill() // likewise
		}
	}
	err = d.unprotectByAdmin() // those of labs that are still there
	switch {
	case d.Namespace == "" && d.namespace != "":
		ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
		defer cancel()
		path := core + "/namespaces/" + url.PathEscape(d.namespace)
		if gone := d.client.Delete(ctx, path, nil); gone != nil && !absent(gone) {
			err = errors.Join(err, fmt.Errorf("remove namespace %q: %w", d.namespace, gone))
		}
	case d.scouts.pods > 0:
		err = errors.Join(err, d.unwatchNodes(), d.remove(jobLabel, d.scouts.name, d.scouts))
	}
	err = errors.Join(err, d.client.Close())
	d.client, d.nodes, d.scouts, d.namespace, d.monitors, d.within = nil, nil, jobSpec{}, "", "", nil
	d.usesAdmin.Store(false)
	return err
}

// otherImage says what to do about an image that holds another program, after a semicolon.
func (d *Deployment) otherImage(err error) string {
	if err == nil || !strings.Contains(err.Error(), "different program") {
		return ""
	}
	return fmt.Sprintf("; image %s holds another nettoll (nettoll image writes one with this)", d.Image)
}
