package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
)

const (
	// MonitorCommand reads what a node counts, see [Monitor].
	MonitorCommand = "monitor"
	// StayCommand is the first process of the pod of a monitor, see [Stay].
	StayCommand = "stay"
)

// Stay is the main function of the first process in the pod of a monitor, which waits for its end. It cannot see that
// nobody is there any more, because it sees all processes of its node: the pod goes with the scouts.
func Stay(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Methods of a monitor.
const (
	methodRead  = "monitor.read"  // nothing → traffic.Reading
	methodBegin = "monitor.begin" // nothing → nothing: programs are watched from now on
	methodEnd   = "monitor.end"   // ours → programs: what they did since then
)

// ours are the UIDs of the pods of a run.
type ours struct {
	Pods []string `json:"pods"`
}

// programs are what ran on a node besides the run.
type programs struct {
	// Known is false if it cannot be told which processes are of the run.
	Known bool           `json:"known"`
	Users []procfs.User  `json:"users"`
	Runs  map[int]string `json:"runs"` // other runs of nettoll: command lines by PID
}

// Monitor answers questions about the node on which it is, until the input ends. Its pod shares the network and the
// processes of the node. It needs no other right, but to listen CAP_NET_RAW, and changes nothing.
func Monitor(ctx context.Context, in io.Reader, out io.WriteCloser) error {
	m, err := newMonitor()
	if err != nil {
		return err
	}
	defer m.close()
	return protocol.Serve(ctx, in, out, protocol.Methods{
		methodRead: protocol.Method(func(context.Context, struct{}) (traffic.Reading, error) { return m.read() }),
		methodBegin: protocol.Method(func(context.Context, struct{}) (struct{}, error) {
			return struct{}{}, m.begin()
		}),
		methodEnd:   protocol.Method(func(_ context.Context, o ours) (programs, error) { return m.end(o.Pods) }),
		methodTap:   protocol.Method(func(_ context.Context, t tapping) (struct{}, error) { return struct{}{}, m.tap(t) }),
		methodHeard: protocol.Method(func(context.Context, struct{}) ([]host.Frames, error) { return m.heard() }),
	})
}

// monitor reads the machine of this process.
type monitor struct {
	mu       sync.Mutex
	links    *link.Handle
	files    []*os.File   // schedstat of ksoftirqd threads
	softirqd func() int64 // nil if they are not visible

	before map[int]procfs.Program
	since  int64 // ns; 0: programs are not watched
	runs   map[int]string

	listening *host.Listening // nil: it does not
}

func newMonitor() (*monitor, error) {
	m := &monitor{}
	var err error
	if m.links, err = link.Open(); err != nil {
		return nil, err
	}
	cpus, err := thread.CPUs()
	if err != nil {
		m.close()
		return nil, err
	}
	for _, cpu := range cpus {
		f, err := process.KsoftirqdStat(cpu)
		if errors.Is(err, errors.ErrUnsupported) {
			break // it would be the run time of some only
		}
		if err != nil {
			m.close()
			return nil, err
		}
		m.files = append(m.files, f)
	}
	if len(m.files) == len(cpus) {
		m.softirqd = traffic.Softirqd(m.files)
	}
	return m, nil
}

func (m *monitor) close() {
	if m.listening != nil {
		_, _ = m.listening.End() // nobody has asked for it
	}
	m.links.Close()
	for _, f := range m.files {
		_ = f.Close() // it was only read
	}
}

// read reads all counters.
func (m *monitor) read() (r traffic.Reading, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r = traffic.Reading{Clock: clock.Name(), At: clock.Now(), Softirqd: -1}
	if r.CPU, err = procfs.ReadCPUTime(); err != nil {
		return r, err
	}
	if r.Softirqs, err = procfs.NetSoftirqs(); err != nil {
		return r, err
	}
	if m.softirqd != nil {
		r.Softirqd = m.softirqd()
	}
	r.Memory, _ = procfs.UsedMemory()
	r.Devices, err = worker.CountDevices(m.links)
	return r, err
}

// begin begins to watch programs.
func (m *monitor) begin() (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since = 0
	if m.before, err = procfs.ReadPrograms(); err != nil {
		return err
	}
	m.since, m.runs = clock.Now(), map[int]string{}
	for _, r := range procfs.Runs(m.before, procfs.Family(m.before, os.Getpid())) {
		m.runs[r.PID] = r.Command
	}
	return nil
}

// end returns what other programs than those of some pods have done since begin.
func (m *monitor) end(pods []string) (p programs, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since == 0 {
		return p, errors.New("programs are not watched")
	}
	after, err := procfs.ReadPrograms()
	if err != nil {
		return p, err
	}
	seconds := float64(clock.Now()-m.since) / 1e9
	p.Runs = m.runs
	own := procfs.InCgroups(slices.Collect(maps.Keys(after)), pods)
	if p.Known = len(own) > 0; p.Known { // the scout of this node is there
		maps.Copy(own, procfs.Family(after, os.Getpid()))
		p.Users = procfs.Users(m.before, after, own, seconds)
	}
	m.since = 0
	return p, nil
}

// monitorsOf returns the DaemonSet of the monitors of some nodes. Their pods share the network and the processes of
// their node, which only the Pod Security Standard privileged allows. They have no capabilities, and run as nobody. If
// they listen, they are root with the capability for that alone: of others the kernel takes what they are given.
func (j jobSpec) monitorsOf(nodes []string, listen bool, owner object) object {
	user, container := nobody, j.container(StayCommand)
	if listen {
		user = 0
		container["securityContext"] = object{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": object{"drop": []string{"ALL"}, "add": []string{"NET_RAW"}},
		}
	}
	labels := object{managedBy: manager, runLabel: j.run, jobLabel: j.name}
	terms := make([]object, len(nodes))
	for i, n := range nodes { // a requirement has one name
		terms[i] = object{"matchFields": []object{{"key": "metadata.name", "operator": "In", "values": []string{n}}}}
	}
	return object{
		"apiVersion": "apps/v1", "kind": "DaemonSet",
		"metadata": object{"name": j.name, "labels": labels, "ownerReferences": []object{owner}},
		"spec": object{
			"selector": object{"matchLabels": object{jobLabel: j.name}},
			"template": object{
				"metadata": object{"labels": labels},
				"spec": object{
					"affinity": object{"nodeAffinity": object{
						"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": terms},
					}},
					"hostNetwork": true, "hostPID": true,
					"automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 1,
					"securityContext": object{
						"runAsNonRoot": !listen, "runAsUser": user, "runAsGroup": user,
						"seccompProfile": object{"type": "RuntimeDefault"},
					},
					"containers": []object{container},
				},
			},
		},
	}
}

// watchNodes puts a monitor on each node. If the cluster does not let it, the error says what helps.
func (d *Deployment) watchNodes(ctx context.Context) error {
	j := jobSpec{name: d.jobName("monitors"), run: d.run, image: d.Image, pods: len(d.nodes), daemons: true}
	names := make([]string, len(d.nodes))
	for i, n := range d.nodes {
		names[i] = n.name
	}
	if err := d.client.Create(ctx, d.path(apps, "daemonsets"), j.monitorsOf(names, d.Taps, d.owner), nil); err != nil {
		return unwatched(fmt.Errorf("make daemon set %q: %w", j.name, err))
	}
	d.monitors = j.name
	pods, err := d.await(ctx, jobLabel, j.name, j)
	if err != nil {
		return unwatched(err)
	}
	d.own(j.name, pods[0])
	on := make(map[string]string, len(d.nodes))
	for _, p := range pods[0] {
		on[p.Spec.Node] = p.Metadata.Name
	}
	return d.each(ctx, len(d.nodes), "monitors answer", func(ctx context.Context, i int) (err error) {
		n := &d.nodes[i]
		if on[n.name] == "" {
			return fmt.Errorf("daemon set %q has no pod on node %s", j.name, n.name)
		}
		n.monitor, err = d.monitorIn(ctx, n.name, on[n.name])
		return err
	})
}

// unwatchNodes removes the monitors, and waits until their pods have gone. If the user may not, they go with the
// scouts.
func (d *Deployment) unwatchNodes() error {
	if d.monitors == "" {
		return nil
	}
	defer d.disown(d.monitors)
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also if the run was interrupted
	defer cancel()
	err := d.client.Delete(ctx, d.path(apps, "daemonsets")+"/"+url.PathEscape(d.monitors),
		object{"propagationPolicy": "Background"})
	refused, ok := errors.AsType[*kubectl.StatusError](err)
	switch {
	case absent(err), ok && refused.Code == http.StatusForbidden:
		return nil
	case err != nil:
		return fmt.Errorf("remove daemon set %q: %w", d.monitors, err)
	}
	return d.vanished(ctx, jobLabel, d.monitors)
}

// monitorIn starts a monitor in its pod on a node, and reads that once.
func (d *Deployment) monitorIn(ctx context.Context, node, pod string) (*running, error) {
	m, err := d.start(ctx, "monitor of "+node, pod, MonitorCommand)
	if err != nil {
		return nil, err
	}
	var r traffic.Reading
	if err := m.Call(ctx, methodRead, nil, &r); err != nil {
		return nil, errors.Join(err, m.Kill())
	}
	return m, nil
}

// unwatched says what helps if the nodes cannot be monitored.
func unwatched(err error) error {
	hint := "leave out monitor: nodes"
	refused, ok := errors.AsType[*kubectl.StatusError](err)
	switch text := err.Error(); {
	case strings.Contains(text, "PodSecurity"):
		hint += ", or name a namespace that enforces the Pod Security Standard privileged"
	case ok && refused.Code == http.StatusForbidden:
		hint += ", or get the right to (nettoll doctor --cluster lists rights)"
	}
	return fmt.Errorf("monitor: nodes: %w (%s)", err, hint)
}

// monitored returns the monitor of a node; nil if it has none. One that has ended is started again, if its pod runs
// again.
func (d *Deployment) monitored(ctx context.Context, i int) *running {
	d.watching.Lock()
	defer d.watching.Unlock()
	n := &d.nodes[i]
	if n.monitor == nil {
		return nil
	}
	select {
	case <-n.monitor.Done():
	default:
		return n.monitor
	}
	pods, err := d.podsOf(ctx, d.monitors)
	if err != nil {
		return nil
	}
	d.own(d.monitors, pods)
	for _, p := range pods {
		if p.Spec.Node != n.name || !p.runs() {
			continue
		}
		if m, err := d.monitorIn(ctx, n.name, p.Metadata.Name); err == nil {
			n.monitor = m
			return m
		}
	}
	return nil
}

// machine returns the name by which the turn reads a node, which counts from 0.
func (d *Deployment) machine(i int) string { return d.prefix + d.nodes[i].name }

// meter has a turn read the nodes before and after each trial, if they have monitors.
func (d *Deployment) meter(turns interface {
	Meter(machine string, read traffic.Meter)
},
) {
	for i := range d.nodes {
		if d.nodes[i].monitor == nil {
			continue
		}
		turns.Meter(d.machine(i), func(ctx context.Context) (r traffic.Reading, err error) {
			d.watching.Lock()
			m := d.nodes[i].monitor // another one after it was started again
			d.watching.Unlock()
			err = m.client.Call(ctx, methodRead, nil, &r)
			return r, err
		})
	}
}

// reading reads a node, which counts from 0; false if it has no monitor, or that does not answer.
func (d *Deployment) reading(i int) (r traffic.Reading, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	m := d.monitored(ctx, i)
	return r, m != nil && m.Call(ctx, methodRead, nil, &r) == nil
}

// own notes the pods of a Job or DaemonSet.
func (d *Deployment) own(name string, pods []pod) {
	d.owning.Lock()
	defer d.owning.Unlock()
	if d.pods == nil {
		d.pods = map[string][]placed{}
	}
	list := make([]placed, len(pods))
	for i, p := range pods {
		list[i] = placed{uid: p.Metadata.UID, node: p.Spec.Node}
	}
	d.pods[name] = list
}

// disown forgets them.
func (d *Deployment) disown(name string) {
	d.owning.Lock()
	defer d.owning.Unlock()
	delete(d.pods, name)
}

// A placed pod is on a node.
type placed struct{ uid, node string }

// owned returns the UIDs of the pods of the run by their node: a node knows no others.
func (d *Deployment) owned() map[string][]string {
	d.owning.Lock()
	defer d.owning.Unlock()
	by := map[string][]string{}
	for _, pods := range d.pods {
		for _, p := range pods {
			by[p.node] = append(by[p.node], p.uid)
		}
	}
	return by
}
