package bpf_test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// Programs run at a hook in the requested order, are found by name with their maps, and are removed when they are
// closed, even if the link is gone.
func TestHooks(t *testing.T) {
	for _, c := range []struct {
		hook    bpf.Hook
		kind    ebpf.ProgramType
		pass    int32
		several bool
	}{
		{bpf.TCXIngress, ebpf.SchedCLS, -1, true},
		{bpf.TCXEgress, ebpf.SchedCLS, -1, true},
		{bpf.NetkitPeer, ebpf.SchedCLS, -1, true},
		{bpf.Classifier, ebpf.SchedCLS, -1, false},
		{bpf.XDP, ebpf.XDP, 2, false}, // XDP_PASS
	} {
		t.Run(c.hook.String(), func(t *testing.T) {
			m := testnet.New(t)
			testnet.Skip(t, m.Do(func() error {
				h, err := link.Open()
				if err != nil {
					return err
				}
				defer h.Close()
				index := 0
				if c.hook == bpf.NetkitPeer {
					index, err = h.AddNetkit(link.Netkit{Name: "near", PeerName: "far", PeerNS: m.NS})
				} else {
					index, err = h.AddVeth(link.Veth{Name: "near", PeerName: "far", PeerNS: m.NS})
				}
				if err != nil {
					return err
				}
				links, err := bpf.Open()
				if err != nil {
					return err
				}
				defer links.Close()
				if got := links.Index("near"); got != index {
					t.Errorf("the index of near is %d, want %d", got, index)
				}
				first, err := program("first", c.kind, c.pass)
				if err != nil {
					return err
				}
				defer first.Close()
				second, err := program("second", c.kind, c.pass)
				if err != nil {
					return err
				}
				defer second.Close()
				// attached returns the names of the programs found, in order.
				attached := func() (names []string, err error) {
					again, err := bpf.Open() // the XDP program is in the listing of links
					if err != nil {
						return nil, err
					}
					defer again.Close()
					ids, err := again.Attached(c.hook, index)
					if err != nil {
						return nil, err
					}
					for i := range ids {
						for _, name := range []string{"first", "second"} {
							p, err := bpf.Find(ids[i:i+1], name)
							if err != nil {
								return nil, err
							}
							if p == nil {
								continue
							}
							names = append(names, name)
							if p.Maps[name+"_map"] == nil || len(p.Maps) != 1 || !p.Has(ids) {
								t.Errorf("program %s is found with the maps %v", name, p.Maps)
							}
							p.Close()
						}
					}
					return names, nil
				}
				want := func(names ...string) {
					got, err := attached()
					if diff := cmp.Diff(names, got); err != nil || diff != "" {
						t.Errorf("%v; programs (-want +got):\n%s", err, diff)
					}
				}
				want()
				a, err := links.Attach(second, c.hook, index, false)
				if err != nil {
					return err
				}
				want("second")
				if c.several {
					b, err := links.Attach(first, c.hook, index, true)
					if err != nil {
						return err
					}
					want("first", "second")
					if err := b.Close(); err != nil {
						return err
					}
					want("second")
				}
				if err := a.Close(); err != nil {
					return err
				}
				want()
				if a, err = links.Attach(first, c.hook, index, false); err != nil {
					return err
				}
				return errors.Join(h.Delete(index), a.Close())
			}))
		})
	}
}

// program loads a program that looks up a key in a map of its own and accepts every packet.
func program(name string, kind ebpf.ProgramType, pass int32) (*ebpf.Program, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: name + "_map", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return nil, bpf.Explain("make a map", bpf.TCXIngress, err)
	}
	defer m.Close() // the program keeps it open
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: kind, License: "Apache-2.0",
		Instructions: asm.Instructions{
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.FnMapLookupElem.Call(),
			asm.Mov.Imm(asm.R0, pass),
			asm.Return(),
		},
	})
	return p, bpf.Explain("load a program", bpf.TCXIngress, err)
}
