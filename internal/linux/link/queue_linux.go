package link

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/dump"
)

// The queueing disciplines of links without hardware behind them.
const (
	noQueue   = "noqueue"
	pfifoFast = "pfifo_fast"
)

// Queue reads the queue of a link.
func (h *Handle) Queue(index int) (Queue, error) {
	what := fmt.Sprintf("read queue of link %d", index)
	l, err := h.h.LinkByIndex(index)
	if err != nil {
		return Queue{}, explain(what, err, "")
	}
	q := Queue{Kind: noQueue, Length: l.Attrs().TxQLen}
	list, err := dump.Whole(func() ([]netlink.Qdisc, error) { return h.h.QdiscList(by(index)) })
	if err != nil {
		return Queue{}, explain(what, err, "")
	}
	for _, d := range list {
		if d.Attrs().Parent == netlink.HANDLE_ROOT {
			q.Kind = d.Type()
		}
	}
	return q, nil
}

// SetQueue gives a link a queue for this number of packets (pfifo_fast), or none if it is 0 (noqueue). Setting only the
// length has no effect on a link like veth: since Linux 4.3 it has a length of 1,000 and no queue (IFF_NO_QUEUE;
// net/sched/sch_generic.c, attach_one_default_qdisc).
func (h *Handle) SetQueue(index, length int) error {
	kind := noQueue
	if length > 0 {
		kind = pfifoFast
	}
	return h.PutQueue(index, Queue{Kind: kind, Length: length})
}

// PutQueue restores the queue of a link as [Handle.Queue] had read it.
func (h *Handle) PutQueue(index int, q Queue) error {
	what := fmt.Sprintf("set queue of link %d to %s of %d packets", index, q.Kind, q.Length)
	if err := h.h.LinkSetTxQLen(by(index), q.Length); err != nil { // first: a queue takes its length when made
		return explain(what, err, "")
	}
	// Make a new one: an existing queue of the same kind keeps its length. The default at the root cannot be removed,
	// and the kernel has several errors for that (net/sched/sch_api.c, tc_get_qdisc).
	root := netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT}
	if err := h.h.QdiscDel(&netlink.GenericQdisc{QdiscAttrs: root}); err != nil && !errors.Is(err, unix.ENOENT) &&
		!errors.Is(err, unix.EINVAL) {
		return explain(what, err, "")
	}
	if q.Kind == noQueue {
		return nil
	}
	root.Handle = netlink.MakeHandle(1, 0)
	return explain(what, h.h.QdiscAdd(&netlink.GenericQdisc{QdiscAttrs: root, QdiscType: q.Kind}),
		fmt.Sprintf("queueing discipline %q", q.Kind))
}
