package detour

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// The names of the programs in the kernel: BPF_OBJ_NAME_LEN minus the final zero.
const (
	leaving   = "nettoll_away"
	returning = "nettoll_back"
)

const (
	markOffset  = 8  // of mark in struct __sk_buff, include/uapi/linux/bpf.h
	tcxNext     = -1 // TCX_NEXT, include/uapi/linux/bpf.h
	redirectIn  = 1  // BPF_F_INGRESS, include/uapi/linux/bpf.h
	redirectOut = 0
)

// programs returns the program at the port, which redirects frames to the tap unless they come from there, and the
// program at the tap, which makes the port receive them.
func programs(port, tap int) *ebpf.CollectionSpec {
	program := func(name string, code asm.Instructions) *ebpf.ProgramSpec {
		return &ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, Instructions: code, License: "GPL"}
	}
	const back = "back"
	return &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{
		leaving: program(leaving, asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, markOffset, asm.Word),
			asm.JEq.Imm(asm.R2, Mark, back),
			asm.Mov.Imm(asm.R1, int32(tap)),
			asm.Mov.Imm(asm.R2, redirectOut),
			asm.FnRedirect.Call(),
			asm.Return(),
			asm.Mov.Imm(asm.R2, 0).WithSymbol(back),
			asm.StoreMem(asm.R1, markOffset, asm.R2, asm.Word),
			asm.Mov.Imm(asm.R0, tcxNext),
			asm.Return(),
		}),
		returning: program(returning, asm.Instructions{
			asm.Mov.Imm(asm.R2, Mark),
			asm.StoreMem(asm.R1, markOffset, asm.R2, asm.Word),
			asm.Mov.Imm(asm.R1, int32(port)),
			asm.Mov.Imm(asm.R2, redirectIn),
			asm.FnRedirect.Call(),
			asm.Return(),
		}),
	}}
}

// Add makes frames that the port receives take the detour through the tap, in the network namespace of the calling
// thread. The detour stays while held is open, as with [bpf.Hooked]. If the tap is gone, the frames are lost. If the
// kernel lacks something, or a privilege is missing, the error is a [linux.UnsupportedError].
func Add(port, tap string) (attached []bpf.Attachment, held io.Closer, err error) {
	links, err := bpf.Open()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range []string{port, tap} {
		if links.Index(name) == 0 {
			links.Close()
			return nil, nil, fmt.Errorf("link %q: %w", name, link.ErrNotFound)
		}
	}
	loaded, err := ebpf.NewCollection(programs(links.Index(port), links.Index(tap)))
	if err != nil {
		links.Close()
		return nil, nil, bpf.Explain("load the programs of a detour", bpf.TCXIngress, err)
	}
	hooked := links.Hold(loaded)
	if err := hooked.Attach(returning, bpf.TCXIngress, tap, true); err != nil {
		return nil, nil, errors.Join(err, hooked.Close())
	}
	if err := hooked.Attach(leaving, bpf.TCXIngress, port, true); err != nil {
		return nil, nil, errors.Join(err, hooked.Close())
	}
	return hooked.Attached(), hooked, nil
}

// Compare returns the differences of a detour: whether its programs are the first ones at the port and at the tap, by
// the attachments that [Add] has returned.
func Compare(attached []bpf.Attachment) ([]linux.Difference, error) {
	links, err := bpf.Open()
	if err != nil {
		return nil, err
	}
	defer links.Close()
	var list []linux.Difference
	for i, name := range []string{returning, leaving} {
		if i >= len(attached) {
			break
		}
		a := attached[i]
		what := fmt.Sprintf("program %s at %s", name, a.Link)
		if links.Index(a.Link) != a.Index {
			list = append(list, linux.Difference{What: "link " + a.Link, Want: linux.Present, Got: linux.Absent})
			continue
		}
		ids, err := links.Attached(bpf.TCXIngress, a.Index)
		if err != nil {
			return nil, err
		}
		found, err := bpf.Find(ids, name)
		if err != nil {
			return nil, err
		}
		switch {
		case found == nil:
			list = append(list, linux.Difference{What: what, Want: linux.Present, Got: linux.Absent})
		case found.ID != ids[0]:
			list = append(list, linux.Difference{What: what, Want: "the first one", Got: "behind others"})
		}
		if found != nil {
			found.Close()
		}
	}
	return list, nil
}

// Check returns nil if detours are possible here, and otherwise what is missing. It tries in a namespace of its own.
func Check() error {
	if err := link.CheckTUN("delay or lose packets by a process"); err != nil {
		return err
	}
	return bpf.Try(false, func(name string) (io.Closer, error) {
		_, held, err := Add(name, name)
		return held, err
	})
}
