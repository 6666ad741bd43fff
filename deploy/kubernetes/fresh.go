package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

const (
	// freshLook is how often it is looked which fresh pods have an address.
	freshLook = 50 * time.Millisecond
	// freshLimit is how long fresh pods may take besides their life, and freshEach how much longer each of them.
	freshLimit, freshEach = time.Minute, time.Second
	// indexVariable is the variable of the environment in which a pod of a Job finds its index
	// (https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode).
	indexVariable = "JOB_COMPLETION_INDEX"
	// lastMessage is the file that the cluster keeps of a container that has ended (terminationMessagePath).
	lastMessage = "/dev/termination-log"
)

// freshSpec is the argument of [FreshCommand], as JSON.
type freshSpec struct {
	sending               // that of the pod with index 0; the flow of another one has its index more
	Life    time.Duration `json:"life"` // ns
}

// freshReport is what a fresh pod says at its end. Times count from its start.
type freshReport struct {
	Sent    int     `json:"sent"`
	Arrived arrived `json:"arrived"`
}

// Fresh is the main function of the first process of a fresh pod. It sends datagrams from its start to the end of its
// life, notes those that arrive, and leaves a report where the cluster keeps it.
func Fresh(ctx context.Context, args []string) error {
	began := clock.Now()
	var s freshSpec
	if len(args) != 1 {
		return fmt.Errorf("%d arguments (valid: 1)", len(args))
	}
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return fmt.Errorf("read the argument: %w", err)
	}
	index, err := strconv.Atoi(os.Getenv(indexVariable))
	if err != nil {
		return fmt.Errorf("%s: %w", indexVariable, err)
	}
	s.Flow += uint32(index)
	report, err := fresh(ctx, s, began)
	if err != nil {
		return err
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return os.WriteFile(lastMessage, text, 0)
}

func fresh(ctx context.Context, s freshSpec, began int64) (report freshReport, err error) {
	sender, err := send(s.sending, began)
	if err != nil {
		return report, err
	}
	r, err := receive()
	if err != nil {
		sender.stop()
		return report, err
	}
	defer r.close()
	select {
	case <-ctx.Done():
	case <-time.After(s.Life - time.Duration(clock.Now()-began)):
	}
	report.Sent, report.Arrived = sender.stop(), r.since(s.Flow, -1)
	for _, t := range []*int64{&report.Arrived.First.At, &report.Arrived.Last.At, &report.Arrived.Now} {
		*t -= began
	}
	return report, nil
}

// A FreshSpec describes fresh pods.
type FreshSpec struct {
	Pods int
	// Node is the number of their node, from 0.
	Node int
	// Selected says that policies for fresh pods are about them ([Policy.Fresh]). Otherwise none is.
	Selected bool
	// Every is the time between two datagrams, and Life how long each pod lives.
	Every, Life time.Duration
	// Running, if not nil, is called once, when all of them run.
	Running func(ctx context.Context) error
}

// A Newborn is what a fresh pod has sent and got.
type Newborn struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Egress is what it has sent to the second end of the [Policing] since its first instruction.
	Egress Passed `json:"egress"`
	// Ingress is what that end has sent to it since the API knew its address.
	Ingress Passed `json:"ingress"`
}

// Passed is how many datagrams were sent and arrived. The times are those of the first and the last one that arrived,
// in s since the first instruction of the pod, by its own clock; 0 if none did.
type Passed struct {
	Sent    int     `json:"sent"`
	Arrived int     `json:"arrived"`
	First   float64 `json:"first"`
	Last    float64 `json:"last"`
}

// fresh is the label of fresh pods that policies select, or not.
func (p *Policing) fresh(selected bool) string {
	if selected {
		return p.name + "-selected"
	}
	return p.name + "-others"
}

// Fresh makes pods and waits for their end. They are removed.
func (p *Policing) Fresh(ctx context.Context, s FreshSpec) (list []Newborn, err error) {
	d := p.deployment
	ctx, cancel := context.WithTimeoutCause(ctx, freshLimit+time.Duration(s.Pods)*freshEach+s.Life,
		fmt.Errorf("%d fresh pods have not ended in time", s.Pods))
	defer cancel()
	spec := freshSpec{
		sending: sending{
			Flow: p.flows + 1, Kind: FlowNew, To: netip.AddrPortFrom(p.sink.addr, flowPort), Every: s.Every,
		},
		Life: s.Life,
	}
	p.flows += uint32(s.Pods)
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	j := jobSpec{
		name: d.jobName("fresh"), run: d.run, lab: p.fresh(s.Selected), image: d.Image, pods: s.Pods,
		node: d.nodes[s.Node].name, runs: []string{FreshCommand, string(text)}, owner: d.owner,
	}
	if err := d.client.Create(ctx, d.path(batch, "jobs"), j.objects()[0], nil); err != nil {
		return nil, fmt.Errorf("make job %q: %w", j.name, err)
	}
	defer func() { err = errors.Join(err, d.remove(jobLabel, j.name, j)) }()
	b := births{policing: p, spec: s, job: j, first: spec.Flow, sends: make([]bool, s.Pods), done: make([]bool, s.Pods)}
	b.list = make([]Newborn, s.Pods)
	if err := b.await(ctx); err != nil {
		return nil, err
	}
	return b.list, nil
}

// births are fresh pods that live.
type births struct {
	policing *Policing
	spec     FreshSpec
	job      jobSpec
	first    uint32 // the flow of index 0
	sends    []bool // by index: the second end sends to it
	done     []bool // by index: it has ended
	told     bool   // Running was called
	list     []Newborn
}

// await looks after them until all have ended.
func (b *births) await(ctx context.Context) error {
	d, began := b.policing.deployment, time.Now()
	for {
		pods, err := d.podsOf(ctx, b.job.name)
		if err != nil {
			return err
		}
		if len(pods) < b.spec.Pods && time.Since(began) > refusedAfter {
			if _, why := d.refused(ctx, "Job", b.job.name); why != "" {
				return fmt.Errorf("job %q gets no pods: %s", b.job.name, why)
			}
		}
		ended := 0
		for i := range pods {
			if err := b.look(ctx, &pods[i]); err != nil {
				return err
			}
		}
		for _, done := range b.done {
			if done {
				ended++
			}
		}
		if ended == b.spec.Pods {
			return nil
		}
		if !b.told && b.spec.Running != nil && all(b.sends) {
			b.told = true
			if err := b.spec.Running(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d fresh pods have ended: %w", ended, b.spec.Pods, context.Cause(ctx))
		case <-time.After(freshLook):
		}
	}
}

func all(list []bool) bool {
	for _, one := range list {
		if !one {
			return false
		}
	}
	return true
}

// look has the second end send to a pod that has an address now, and reads the report of one that has ended.
func (b *births) look(ctx context.Context, one *pod) error {
	i, sink := one.index(), b.policing.sink.scout
	if i < 0 || i >= b.spec.Pods || b.done[i] {
		return nil
	}
	flow := b.first + uint32(i)
	to, v6 := one.addresses()
	if !to.IsValid() {
		to = v6
	}
	if !b.sends[i] && to.IsValid() {
		b.sends[i] = true
		if err := sink.Call(ctx, methodSend, sending{
			Flow: flow, Kind: FlowNew, To: netip.AddrPortFrom(to, flowPort), Every: b.spec.Every,
		}, nil); err != nil {
			return err
		}
	}
	if one.Status.Phase != "Succeeded" {
		if why := one.never(); why != "" {
			return fmt.Errorf("pod %q: %s%s", one.Metadata.Name, why, b.policing.deployment.imageHint(why))
		}
		return nil
	}
	b.done[i] = true
	var report freshReport
	if err := json.Unmarshal([]byte(one.said()), &report); err != nil {
		return fmt.Errorf("pod %q: its report: %w", one.Metadata.Name, err)
	}
	n := &b.list[i]
	n.Pod, n.Node, n.Egress.Sent = one.Metadata.Name, one.Spec.Node, report.Sent
	if b.sends[i] {
		if err := sink.Call(ctx, methodStop, asked{Flow: flow}, &n.Ingress.Sent); err != nil {
			return err
		}
	}
	var a arrived
	if err := sink.Call(ctx, methodArrived, asked{flow, -1}, &a); err != nil {
		return err
	}
	n.Egress.got(a.Count, a.First.Sent, a.Last.Sent)
	n.Ingress.got(report.Arrived.Count, report.Arrived.First.At, report.Arrived.Last.At)
	return nil
}

// got notes what has arrived, with times in ns.
func (p *Passed) got(count int, first, last int64) {
	if p.Arrived = count; count > 0 {
		p.First, p.Last = time.Duration(first).Seconds(), time.Duration(last).Seconds()
	}
}

// said is what the container of a pod has left for the cluster to keep.
func (p *pod) said() string {
	for _, c := range p.Status.Containers {
		if t := c.State.Terminated; t != nil {
			return t.Message
		}
	}
	return ""
}
