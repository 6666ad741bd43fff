package probe

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/softirq"
)

// Counter holds the two programs and their memory. File descriptors of this process keep them alive; descriptors that
// were passed on also keep the memory. The kernel removes each with its last descriptor, however the processes end.
type Counter struct {
	times            *ebpf.Map
	entered, left    *ebpf.Program
	slots            []softirq.Slot // writable, unlike the mappings of other processes
	mem              []byte
	onEntry, onLeave link.Link // nil while it is off
}

// Load loads the programs; nothing is traced before [Counter.On]. If that is not possible, the error is a
// [linux.UnsupportedError].
//
// The programs are attached as raw tracepoints (BPF_RAW_TRACEPOINT_OPEN, Linux 4.17), by name, so that tracefs need not
// be mounted. Each hit also costs less than with a perf event, which first copies the tracepoint's record into a buffer
// (kernel/trace/bpf_trace.c, include/trace/perf.h).
func Load() (*Counter, error) {
	p := &Counter{}
	if err := p.load(); err != nil {
		_ = p.Close()
		return nil, explain("load the softirq probe", err)
	}
	return p, nil
}

func (p *Counter) load() (err error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	p.times, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "nettoll_softirq", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(softirq.SlotSize), MaxEntries: uint32(cpus),
		Flags: unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return err
	}
	if p.mem, err = unix.Mmap(p.times.FD(), 0, cpus*int(softirq.SlotSize), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map it: %w", err)
	}
	p.slots = unsafe.Slice((*softirq.Slot)(unsafe.Pointer(&p.mem[0])), cpus)
	if p.entered, err = program("nettoll_entry", entering(p.times)); err != nil {
		return err
	}
	p.left, err = program("nettoll_exit", leaving(p.times))
	return err
}

func program(name string, instructions asm.Instructions) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.RawTracepoint, License: "Apache-2.0", Instructions: instructions,
	})
}

// explain turns a refusal of the kernel into a [linux.UnsupportedError]. Without the privilege, the error is EPERM; in
// lockdown, EPERM or EACCES; without BPF or the tracepoint, ENOSYS, EINVAL or ENOENT.
func explain(what string, err error) error {
	var missing, hint string
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		missing, hint = "CAP_BPF and CAP_PERFMON outside of any user namespace", "run as root; a container needs --privileged"
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT),
		errors.Is(err, ebpf.ErrNotSupported):
		missing, hint = "eBPF on raw tracepoints",
			"a kernel with CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS and CONFIG_TRACEPOINTS, Linux 5.5 or newer"
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return &linux.UnsupportedError{What: what, Missing: missing, Hint: hint, Err: err}
}

// On switches the probe on. From then on, every softirq of the machine runs both programs.
func (p *Counter) On() (err error) {
	if p.onEntry != nil {
		return nil
	}
	// A softirq that was running when the probe was switched off has long ended. Its start must not be taken as that of
	// a softirq that runs now.
	for i := range p.slots {
		atomic.StoreUint64(&p.slots[i].Entered, 0)
	}
	if p.onEntry, err = link.AttachRawTracepoint(link.RawTracepointOptions{
		Name:    "softirq_entry",
		Program: p.entered,
	}); err == nil {
		p.onLeave, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "softirq_exit", Program: p.left})
	}
	if err != nil {
		return errors.Join(explain("switch the softirq probe on", err), p.Off())
	}
	return nil
}

// Off switches the probe off; the sums stay.
func (p *Counter) Off() error {
	var list []error
	for _, l := range []*link.Link{&p.onEntry, &p.onLeave} {
		if *l != nil {
			list = append(list, (*l).Close())
			*l = nil
		}
	}
	return errors.Join(list...)
}

// File returns the memory as a file for [softirq.Map], here or in a process that inherits it. The caller closes it.
func (p *Counter) File() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(p.times.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("pass on the times of softirqs: %w", err)
	}
	return os.NewFile(uintptr(fd), "softirq"), nil
}

// Close switches the probe off and removes it. It is idempotent.
func (p *Counter) Close() error {
	list := []error{p.Off()}
	if p.mem != nil {
		list = append(list, unix.Munmap(p.mem))
		p.mem, p.slots = nil, nil
	}
	// Closing something that was never made does nothing.
	return errors.Join(append(list, p.entered.Close(), p.left.Close(), p.times.Close())...)
}
