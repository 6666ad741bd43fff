package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/machine"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/userns"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/workload"
)

// diagnosis is what doctor finds. Its JSON is what `doctor --json` prints: keys are added, and never renamed.
type diagnosis struct {
	Default       string       `json:"default_experiment"` // canRun, inPart or cannotRun
	UserNamespace bool         `json:"user_namespace"`     // whether parts were tried inside one
	NotGranted    []string     `json:"not_granted"`        // what root of the machine has and this process does not, in words
	Parts         []*diagnosed `json:"parts"`
	Machine       []aboutThere `json:"machine"`
}

const (
	canRun    = "can run"
	inPart    = "can run in part"
	cannotRun = "cannot run"
)

// diagnosed is one part.
type diagnosed struct {
	Kind           string     `json:"kind"`
	Name           string     `json:"name"`
	Implementation string     `json:"implementation,omitempty"`
	Works          bool       `json:"works"` // in everything that was tried
	Tried          []*attempt `json:"tried"`
}

// attempt is one way to use a part.
type attempt struct {
	What    string `json:"what"`                     // "one host"
	By      string `json:"implementation,omitempty"` // who did the work, where that is found out only then
	Works   bool   `json:"works"`
	LeftOut string `json:"left_out,omitempty"` // why it means nothing; it was not tried then
	Reason  string `json:"reason,omitempty"`   // why it does not work
	Missing string `json:"missing,omitempty"`  // what is not there, where that is known
	Hint    string `json:"hint,omitempty"`     // what would help
}

// aboutThere is one finding about the machine.
type aboutThere struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Known  bool   `json:"known"`
	Advice string `json:"advice,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what works on this machine, and what would make its results steadier",
		Long: `Tries each part of the catalogue, in the smallest lab that there is and in the same way as run: it builds the lab, proves that
packets of full size pass, has it measured for some milliseconds, and removes it. The probe is switched on and off. For each
of them it says that it works, and by which implementation, or why not and what would help. Then it looks at the machine: its CPUs, what else runs, the limits of
its kernel, with advice where something makes results scatter. What the machine does not show is said to be not known.
It takes a few seconds. As an ordinary user it works in a user namespace, as run does.

With --json it is one object:
  default_experiment  "can run", "can run in part" or "cannot run"
  user_namespace      whether parts were tried inside a user namespace
  not_granted         what root of the machine has and this process does not, as sentences
  parts               kind, name, implementation, works, and tried: what, works, left_out, reason, missing, hint
  machine             name, value, known, advice

The exit status is 0 if the default experiment can run, 3 if it cannot because some part does not work here, and 1 if
nothing can be measured here.`,
		Example: `  nettoll doctor
  nettoll doctor --json | jq -r '.parts[] | select(.works | not).name'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ended, err := a.rootless(); ended {
				return err
			}
			d, err := a.diagnose(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(a.Out, d)
			} else {
				o := a.textOptions()
				err = d.write(a.Out, o.Width, o.Color)
			}
			switch {
			case err != nil:
				return err
			case d.Default == canRun:
				return nil
			case !d.anything():
				return status(exitFailed)
			}
			return status(exitPartly)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// sampled is for how long the CPUs are watched.
const sampled = 200 * time.Millisecond

// modes returns how many cores are in each mode just now, nil if the kernel does not say.
func modes(ctx context.Context) map[string]float64 {
	before, err := procfs.ReadCPUTime()
	if err != nil {
		return nil
	}
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(sampled):
	}
	after, err := procfs.ReadCPUTime()
	if err != nil {
		return nil
	}
	return procfs.Cores(before, after, time.Since(began).Seconds())
}

func (a *app) diagnose(ctx context.Context) (*diagnosis, error) {
	d := &diagnosis{UserNamespace: userns.Inside() && a.refused == nil, NotGranted: userns.Refused()}
	var options machine.Options
	options.Modes = modes(ctx) // before anything of ours runs
	sources, sinks, err := control.CPUs()
	if err != nil {
		return nil, err
	}
	options.Sources, options.Sinks = sources, sinks
	if d.Parts, err = a.tryAll(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, status(exitInterrupted)
	}
	for _, f := range machine.Look(os.DirFS("/"), options) {
		d.Machine = append(d.Machine, aboutThere(f))
	}
	cpus := slices.Concat(sources, sinks)
	slices.Sort(cpus)
	if d.Default, err = d.defaultExperiment(a.catalogue.Parts(), len(slices.Compact(cpus))); err != nil {
		return nil, err
	}
	return d, nil
}

const (
	oneHost  = "one host"
	twoHosts = "two hosts"
	// tryLimit is how long one try may take. They take some 50 ms each, those of drivers seconds.
	tryLimit = 20 * time.Second
	// quiet is after which time the user is told what is being tried.
	quiet = 2 * time.Second
	// atOnce is how many are tried at the same time: no figure is taken from them.
	atOnce = 8
)

// tries are parts on trial.
type tries struct {
	a     *app
	parts []*diagnosed
	group errgroup.Group
	began time.Time

	mu    sync.Mutex // of what follows, and of what is written meanwhile
	again []func()   // what failed, perhaps because the machine is busy with the others
}

// wait waits until all have been tried. What failed is tried once more, alone.
func (t *tries) wait() {
	_ = t.group.Wait() // it has no errors: they are results
	for _, try := range t.again {
		try()
	}
	t.again = nil
}

// add adds a part.
func (t *tries) add(kind, name, implementation string) *diagnosed {
	d := &diagnosed{Kind: kind, Name: name, Implementation: implementation}
	t.parts = append(t.parts, d)
	return d
}

// try tries one way to use a part, in the background.
func (t *tries) try(ctx context.Context, d *diagnosed, what string, s control.Sample) {
	result := &attempt{What: what}
	d.Tried = append(d.Tried, result)
	if t.a.refused != nil {
		result.explain(t.a.refused)
		return
	}
	t.group.Go(func() error {
		told := time.AfterFunc(max(0, quiet-time.Since(t.began)), func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			fmt.Fprintf(t.a.Err, "trying %s %s (%s)\n", d.Kind, d.Name, what)
		})
		defer told.Stop()
		once := func() (map[string]string, error) {
			ctx, cancel := context.WithTimeoutCause(ctx, tryLimit, fmt.Errorf("it took longer than %v", tryLimit))
			defer cancel()
			return control.Try(ctx, s, startLocal)
		}
		who, err := once()
		result.explain(err)
		result.By = who[d.Kind]
		if err != nil && !errors.Is(err, errors.ErrUnsupported) && ctx.Err() == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.again = append(t.again, func() {
				who, err := once()
				result.explain(err)
				result.By = who[d.Kind]
			})
		}
		return nil
	})
}

// tryAll tries every part.
func (a *app) tryAll(ctx context.Context) ([]*diagnosed, error) {
	parts := a.catalogue.Parts()
	baseline, err := parts.Network(experiment.Base().Baseline.Network.Name)
	if err != nil {
		return nil, err
	}
	t := &tries{a: a, began: time.Now()}
	t.group.SetLimit(atOnce)
	simple := control.Sample{Network: baseline, Runtime: parts.Runtimes[0], Workload: parts.Workloads[0], Hosts: 1}
	for _, n := range parts.Networks {
		d := t.add("network", n.Describe().Name, n.Describe().Implementation)
		for i, what := range []string{oneHost, twoHosts} {
			s := simple
			s.Network, s.Hosts = n, i+1
			if reason := excluded(n, s.Hosts); reason != "" {
				d.Tried = append(d.Tried, &attempt{What: what, LeftOut: reason})
				continue
			}
			t.try(ctx, d, what, s)
		}
		t.variants(ctx, d, simple, n)
	}
	t.wait()
	for _, f := range parts.Filters {
		d := t.add("filter", f.Describe().Name, f.Describe().Implementation)
		t.filter(ctx, d, simple, f, parts.Networks)
	}
	t.wait()
	// A runtime makes something only where containers have namespaces of their own, which is where there is no baseline.
	joined := baseline
	for i, d := range t.parts {
		if d.works(oneHost) && d.Name != baseline.Describe().Name {
			joined = parts.Networks[i]
			break
		}
	}
	for _, r := range parts.Runtimes {
		s := simple
		s.Network, s.Runtime = joined, r
		t.try(ctx, t.add("runtime", r.Describe().Name, r.Describe().Implementation), "a container", s)
	}
	for _, w := range parts.Workloads {
		s := simple
		s.Workload = w
		t.try(ctx, t.add("workload", w.Describe().Name, ""), "a trial", s)
	}
	for _, r := range parts.Drivers {
		d := t.add("driver", r.Describe().Name, "")
		for _, w := range parts.Workloads {
			if serves(r, w.Describe()) {
				s := simple
				s.Workload, s.Driver = w, r
				t.try(ctx, d, w.Describe().Name, s)
			}
		}
	}
	t.wait()
	d := t.add("probe", experiment.Softirq, "ebpf")
	probed := &attempt{What: "tracepoints"}
	d.Tried = append(d.Tried, probed)
	if probed.explain(a.refused); a.refused == nil {
		probed.explain(control.TryProbe())
	}
	for _, d := range t.parts {
		d.Works = slices.ContainsFunc(d.Tried, func(t *attempt) bool { return t.Works }) && !slices.ContainsFunc(d.Tried, (*attempt).failed)
	}
	return t.parts, nil
}

// variants tries a network once with each value of its parameters that is not the default, on one host or, where that means nothing, on two: modes, ways to attach.
func (t *tries) variants(ctx context.Context, d *diagnosed, s control.Sample, n network.Network) {
	for _, p := range n.Describe().Params {
		if p.Quiet || p.Values == nil {
			continue
		}
		for _, value := range p.Values {
			if value == p.Default {
				continue
			}
			s.Network, s.Params, s.Hosts = n, map[string]string{p.Name: value}, 1
			if left(n, s.Params, 1) != "" {
				s.Hosts = 2
			}
			if reason := left(n, s.Params, s.Hosts); reason != "" {
				d.Tried = append(d.Tried, &attempt{What: p.Name + "=" + value, LeftOut: reason})
				continue
			}
			t.try(ctx, d, p.Name+"="+value, s)
		}
	}
}

// filter tries a filter on each network where it can stand, on one host.
func (t *tries) filter(ctx context.Context, d *diagnosed, s control.Sample, f filter.Filter, networks []network.Network) {
	fd := f.Describe()
	ofFilter, err := fd.Params.Resolve("filter "+fd.Name, nil)
	if err != nil {
		return // the catalogue's tests would have found it
	}
	for _, n := range networks {
		g, ok := n.(network.Guarded)
		if !ok {
			continue
		}
		nd := n.Describe()
		var given map[string]string
		if left(n, nil, 1) != "" && slices.Contains(nd.Params.Names(), "hairpin") {
			given = map[string]string{"hairpin": "true"}
		}
		params, err := nd.Params.Resolve("network "+nd.Name, given)
		if err != nil || left(n, given, 1) != "" {
			continue
		}
		at, _ := g.Guarded(params)
		w := filter.Where{Network: nd.Name, Point: at, Hosts: 1}
		if x, ok := n.(network.Translator); ok {
			w.Translated = x.Translates(1, params)
		}
		what := under + nd.Name
		if reason := f.Refuse(w, ofFilter); reason != "" {
			d.Tried = append(d.Tried, &attempt{What: what, LeftOut: reason})
			continue
		}
		s.Network, s.Params, s.Filter, s.Hosts = n, given, f, 1
		t.try(ctx, d, what, s)
	}
}

// left is excluded for a network with some parameters.
func left(n network.Network, given map[string]string, hosts int) string {
	x, ok := n.(network.Excluder)
	if !ok {
		return ""
	}
	params, err := n.Describe().Params.Resolve("", given)
	if err != nil {
		return err.Error()
	}
	return x.Exclude(hosts, params)
}

// excluded returns why a network, with its parameters as by default, means nothing in a lab of so many hosts, "" where it does.
func excluded(n network.Network, hosts int) string { return left(n, nil, hosts) }

// serves says whether a driver can drive a workload with its parameters as by default, or as the driver needs them.
func serves(d driver.Driver, w workload.Description) bool {
	params, err := w.Resolve(d.Describe().Needs[w.Name])
	return err == nil && d.Serves(w, params) == nil
}

// explain takes what came of a try.
func (t *attempt) explain(err error) {
	*t = attempt{What: t.What, Works: err == nil}
	if err == nil {
		return
	}
	t.Reason = err.Error()
	if u, ok := errors.AsType[*linux.UnsupportedError](err); ok {
		t.Missing, t.Hint = u.Missing, u.Hint
		t.Reason = strings.ReplaceAll(t.Reason, " (hint: "+u.Hint+")", "")
	}
}

// failed says whether it was tried and does not work.
func (t *attempt) failed() bool { return !t.Works && t.LeftOut == "" }

// works says whether a part works in one way of using it.
func (p *diagnosed) works(what string) bool {
	return slices.ContainsFunc(p.Tried, func(t *attempt) bool { return t.What == what && t.Works })
}

// works says whether there is a part that works in one way of using it, or in all where what is "".
func (d *diagnosis) works(kind, name, what string) bool {
	return slices.ContainsFunc(d.Parts, func(p *diagnosed) bool {
		return p.Kind == kind && p.Name == name && (p.Works || what != "" && p.works(what))
	})
}

// anything says whether something can be measured: there is a network, a runtime and a workload that works.
func (d *diagnosis) anything() bool {
	for _, kind := range []string{"network", "runtime", "workload"} {
		if !slices.ContainsFunc(d.Parts, func(p *diagnosed) bool { return p.Kind == kind && p.mark() != broken }) {
			return false
		}
	}
	return true
}

// defaultExperiment says whether `nettoll run` works here.
func (d *diagnosis) defaultExperiment(parts experiment.Parts, cpus int) (string, error) {
	e, err := experiment.Default(parts)
	if err != nil {
		return "", err
	}
	r, err := experiment.Resolve(e, parts, cpus)
	if err != nil {
		return "", err
	}
	all := true
	for _, l := range r.Labs {
		what := oneHost
		if l.Hosts > 1 {
			what = twoHosts
		}
		all = all && d.works("network", l.Network.Describe().Name, what) && d.works("runtime", l.Runtime.Describe().Name, "")
	}
	for _, c := range r.Cells {
		all = all && d.works("workload", c.Workload.Describe().Name, "")
	}
	baseline := e.Baseline.Network.Name
	switch {
	case all:
		return canRun, nil
	case d.anything() && d.works("network", baseline, oneHost):
		return inPart, nil
	}
	return cannotRun, nil
}

// write shows the diagnosis to people.
func (d *diagnosis) write(w io.Writer, width int, color bool) error {
	p := page{width: width, color: color}
	table := tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	for _, part := range d.Parts {
		fmt.Fprintf(table, "%s %s\t%s\t%s\t%s\n", part.mark(), part.Kind, part.Name, cmp.Or(part.by(), part.Implementation), part.summary())
	}
	_ = table.Flush() // it writes to memory
	p.problems(d.Parts)
	fmt.Fprintf(&p.text, "\nThe default experiment %s here.\n", d.Default)
	if d.UserNamespace {
		fmt.Fprintln(&p.text, "All was tried inside a user namespace, as run does without root.")
	}
	if len(d.NotGranted) > 0 {
		p.wrap("", "Not granted here: "+strings.Join(d.NotGranted, "; ")+".")
	}

	fmt.Fprintln(&p.text)
	longest := 0
	for _, f := range d.Machine {
		longest = max(longest, len(label(f.Name)))
	}
	for _, f := range d.Machine {
		mark := " "
		switch {
		case f.Advice != "":
			mark = adverse
		case !f.Known:
			mark = notKnown
		}
		p.wrap(fmt.Sprintf("%s %-*s  ", mark, longest, label(f.Name)), f.Value)
	}
	fmt.Fprintln(&p.text)
	p.advice(d.Machine)
	return p.flush(w)
}

const (
	fine     = "✓"
	broken   = "✗"
	adverse  = "!"
	notKnown = "?"
)

// under stands before the network that a filter was tried with.
const under = "under "

// mark is what stands before a part.
func (p *diagnosed) mark() string {
	switch {
	case p.Works:
		return fine
	case slices.ContainsFunc(p.Tried, func(t *attempt) bool { return t.Works }):
		return adverse
	}
	return broken
}

// by is who does the work of the part wherever it was tried; "" where it was not found out, or it is not always the same.
func (p *diagnosed) by() string {
	by := ""
	for _, t := range p.Tried {
		switch {
		case t.By == "":
		case by == "":
			by = t.By
		case by != t.By:
			return ""
		}
	}
	return by
}

// summary is what of a part works, in a few words.
func (p *diagnosed) summary() string {
	var works, fails, out, bys []string
	differ := p.by() == ""
	by := map[string][]string{}
	for _, t := range p.Tried {
		switch {
		case t.Works && t.By != "" && differ:
			if by[t.By] == nil {
				bys = append(bys, t.By)
			}
			by[t.By] = append(by[t.By], t.What)
		case t.Works:
			works = append(works, t.What)
		case t.LeftOut != "":
			out = append(out, t.What)
		default:
			fails = append(fails, t.What)
		}
	}
	var said []string
	for _, who := range bys {
		said = append(said, who+": "+ways(by[who]))
	}
	if len(works) > 0 {
		said = append(said, ways(works))
	}
	if said == nil {
		said = []string{"does not work"}
	} else if len(fails) > 0 {
		said = append(said, "not "+ways(fails))
	}
	if len(out) > 0 {
		said = append(said, "left out: "+ways(out))
	}
	return strings.Join(said, "; ")
}

// ways lists what was tried: "under bridge, routed" where each is under a network.
func ways(list []string) string {
	text := strings.Join(list, ", ")
	if !strings.HasPrefix(text, under) {
		return text
	}
	return under + strings.ReplaceAll(strings.TrimPrefix(text, under), ", "+under, ", ")
}

// page is text that is written at once.
type page struct {
	text  strings.Builder
	width int
	color bool
}

// why is why a way to use a part does not work, for people; "" where it works. The whole story is in the JSON.
func (t *attempt) why() string {
	text := t.Reason
	switch {
	case t.LeftOut != "":
		return "left out: " + t.LeftOut
	case t.Missing != "":
		text = "missing " + t.Missing
	}
	if t.Hint != "" {
		text += " (what would help: " + t.Hint + ")"
	}
	return text
}

// problems says why parts do not work, each reason once.
func (p *page) problems(parts []*diagnosed) {
	var reasons []string
	whose, times := map[string][]string{}, map[string]int{}
	out := map[string][]string{} // of reasons why a filter is left out: where
	tried := 0
	for _, part := range parts {
		for _, t := range part.Tried {
			if t.LeftOut == "" {
				tried++
			}
			why := t.why()
			if why == "" {
				continue
			}
			who := part.Kind + " " + part.Name
			if n, ok := strings.CutPrefix(t.What, under); ok && t.LeftOut != "" { // the same reason under several networks
				why = strings.NewReplacer("network "+n+" ", "it ", under+n+" ", "under it ").Replace(why)
				out[who+why] = append(out[who+why], t.What)
				if len(out[who+why]) > 1 {
					last := len(whose[why]) - 1
					whose[why][last] = who + ", " + ways(out[who+why])
					continue
				}
			}
			if slices.ContainsFunc(part.Tried, func(o *attempt) bool { return o.why() != t.why() && (o.LeftOut == "" || t.LeftOut != "") }) {
				who += ", " + t.What
			}
			if times[why]++; times[why] == 1 {
				reasons = append(reasons, why)
			}
			if !slices.Contains(whose[why], who) {
				whose[why] = append(whose[why], who)
			}
		}
	}
	for _, why := range reasons {
		who := whose[why]
		switch n := len(who); {
		case times[why] == tried && n > 1:
			who = []string{"all of them"}
		case n > 3:
			who = append(slices.Clone(who[:2]), fmt.Sprintf("%d more", n-2))
		}
		fmt.Fprintln(&p.text)
		p.wrap("  ", strings.Join(who, "; ")+": "+why)
	}
}

// advice says what would make results steadier.
func (p *page) advice(findings []aboutThere) {
	found := false
	for _, f := range findings {
		if f.Advice != "" {
			found = true
			p.wrap(adverse+" ", label(f.Name)+": "+f.Advice)
		}
	}
	if !found {
		fmt.Fprintln(&p.text, "There is nothing to advise.")
	}
}

// label is what people call a finding.
func label(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words {
		switch w {
		case "cpu", "smt":
			words[i] = strings.ToUpper(w)
		case "cpus":
			words[i] = "CPUs"
		}
	}
	return strings.Join(words, " ")
}

// wrap writes a text after something that stands before it, and its further lines below its first.
func (p *page) wrap(before, text string) {
	at := utf8.RuneCountInString(before)
	indent := strings.Repeat(" ", at)
	p.text.WriteString(before)
	used := at
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && used+1+n > p.width:
			p.text.WriteString("\n" + indent)
			used = at
		case i > 0:
			p.text.WriteByte(' ')
			used++
		}
		p.text.WriteString(word)
		used += n
	}
	p.text.WriteByte('\n')
}

// flush writes the page, with coloured marks on a terminal that may have them.
func (p *page) flush(w io.Writer) error {
	colours := map[string]string{fine: "32", broken: "31", adverse: "33"} // SGR: green, red, yellow; ECMA-48, 8.3.117
	for line := range strings.Lines(p.text.String()) {
		mark, rest, ok := strings.Cut(line, " ")
		if colour := colours[mark]; p.color && ok && colour != "" {
			line = "\x1b[" + colour + "m" + mark + "\x1b[0m " + rest
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}
