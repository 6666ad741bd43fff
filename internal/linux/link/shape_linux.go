package link

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/dump"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

const (
	// shapeBurst is how long a link may send at full speed after it was idle: as long as a timer may be late.
	shapeBurst = 2 * time.Millisecond
	// shapeQueue is how long the queued packets take to be sent. More packets are dropped.
	shapeQueue = 25 * time.Millisecond
	// tick is the unit of time in queueing disciplines: PSCHED_SHIFT, include/net/pkt_sched.h.
	tick = 64 * time.Nanosecond
	// ethernetHeader is ETH_HLEN, include/uapi/linux/if_ether.h.
	ethernetHeader = 14
	// netemPackets is the least number of packets that may wait, as by default: net/sched/sch_netem.c has no default of
	// its own, and tc(8) sets 1000.
	netemPackets = 1000
	// netemFast is the rate for which a queue is sized if no rate is given, in bit/s.
	netemFast = 40e9
	// netemOrdered is a rate in bit/s that limits nothing: a frame of 64 KiB takes half a microsecond. With a rate,
	// netem keeps the order of packets with different delays; without one, it does not (net/sched/sch_netem.c,
	// netem_enqueue).
	netemOrdered = 1e12
)

// qdisc returns the queueing discipline of a shape: a token bucket, or netem if packets are delayed or dropped. Both
// count the length of a frame without its checksum. For a large segment, they count the lengths of all frames into
// which it is cut (net/core/dev.c, qdisc_pkt_len_segs_init).
func (s Shape) qdisc(index int) netlink.Qdisc {
	at := netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)}
	bytes := float64(s.Rate) / 8 // per second
	if s.Delay == 0 && s.Loss == 0 {
		burst := max(bytes*shapeBurst.Seconds(), float64(2*(s.MTU+ethernetHeader)))
		return &netlink.Tbf{
			QdiscAttrs: at, Rate: uint64(bytes), Limit: uint32(min(burst+bytes*shapeQueue.Seconds(), math.MaxInt32)),
			Buffer: uint32(min(burst/bytes*float64(time.Second)/float64(tick), math.MaxInt32)),
		}
	}
	fastest := float64(netemFast) / 8
	if bytes > 0 {
		fastest = bytes
	} else if s.Jitter > 0 {
		bytes = netemOrdered / 8
	}
	waiting := fastest * (s.Delay + s.Jitter + shapeQueue).Seconds() / float64(max(s.MTU, 1))
	return &netlink.Netem{
		QdiscAttrs: at, Latency: uint32(s.Delay / tick), Jitter: uint32(s.Jitter / tick),
		Loss:  uint32(math.Round(s.Loss * math.MaxUint32)),
		Limit: uint32(max(netemPackets, waiting)), Rate64: uint64(bytes),
	}
}

// SetShape makes a link send with a shape.
func (h *Handle) SetShape(index int, s Shape) error {
	q := s.qdisc(index)
	what := fmt.Sprintf("shape link %d by %s", index, q.Type())
	err := h.h.QdiscReplace(q)
	if errors.Is(err, unix.ENOENT) { // net/sched/sch_api.c, qdisc_create: the kind is unknown
		return noShape(what, q.Type(), err)
	}
	return explain(what, err, "")
}

// CompareShape describes how a link should send and how it does. The texts are equal if the shape is as wanted.
func (h *Handle) CompareShape(index int, s Shape) (want, got string, err error) {
	list, err := dump.Whole(func() ([]netlink.Qdisc, error) { return h.h.QdiscList(by(index)) })
	if err != nil {
		return "", "", explain(fmt.Sprintf("read shape of link %d", index), err, "")
	}
	got = noQueue
	for _, q := range list {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			got = shapeText(q)
		}
	}
	return shapeText(s.qdisc(index)), got, nil
}

func shapeText(q netlink.Qdisc) string {
	switch q := q.(type) {
	case *netlink.Tbf:
		return fmt.Sprintf("tbf of %d byte/s, burst of %v, queue of %d bytes", q.Rate, time.Duration(q.Buffer)*tick, q.Limit)
	case *netlink.Netem:
		return fmt.Sprintf("netem of %d byte/s, %v ± %v later, %.4f %% lost, queue of %d packets",
			q.Rate64, time.Duration(q.Latency)*tick, time.Duration(q.Jitter)*tick, 100*float64(q.Loss)/math.MaxUint32, q.Limit)
	}
	return q.Type()
}

// CheckShape returns an error if this kernel does not support the shape. It tries in a namespace of its own.
func CheckShape(s Shape) error {
	const loopback = 1 // the index of lo in each namespace: net/core/dev.c, LOOPBACK_IFINDEX
	err := alone(func() error {
		h, err := Open()
		if err != nil {
			return err
		}
		defer h.Close()
		return h.SetShape(loopback, s)
	})
	kind := s.qdisc(loopback).Type()
	what := map[string]string{"tbf": "limit the rate of links", "netem": "delay or lose packets of links"}[kind]
	if lacking, ok := errors.AsType[*linux.UnsupportedError](err); ok {
		lacking.What = what
	}
	if errors.Is(err, unix.EPERM) { // without permission for a namespace
		option := map[string]string{"tbf": "CONFIG_NET_SCH_TBF", "netem": "CONFIG_NET_SCH_NETEM"}[kind]
		if value, known := procfs.KernelOption(option); known && value == "n" {
			return noShape(what, kind, nil)
		}
		return nil
	}
	return err
}

func noShape(what, kind string, err error) error {
	return &linux.UnsupportedError{
		What: what, Missing: fmt.Sprintf("queueing discipline %q", kind), Err: err,
		Hint: fmt.Sprintf("load the module sch_%s, or use a kernel that has it", kind),
	}
}
