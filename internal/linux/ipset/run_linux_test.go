package ipset

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestSets(t *testing.T) {
	testnet.Skip(t, Check())
	testnet.Skip(t, testnet.New(t).Do(func() error {
		names := []string{"four", "six", "none"}
		if err := errors.Join(Destroy(names...), Create(sets()...)); err != nil {
			return err
		}
		compared := func(when, want string) {
			var all []string
			for _, s := range sets() {
				diff, err := Compare(s)
				if err != nil {
					t.Errorf("%s: %v", when, err)
				}
				for _, d := range diff {
					all = append(all, d.What+": "+d.Want+", "+d.Got)
				}
			}
			if got := strings.Join(all, "\n"); got != want {
				t.Errorf("%s: differences %q, want %q", when, got, want)
			}
		}
		compared("made", "")
		small, err := Memory("none")
		large, lerr := Memory("four")
		if err != nil || lerr != nil || small < leastBuckets*pointer || large <= small {
			t.Errorf("Memory of a set without entries %d, %v, and with some %d, %v", small, err, large, lerr)
		}
		if err := Create(sets()[1]); !errors.Is(err, fs.ErrExist) {
			t.Errorf("make a set again: %v, want fs.ErrExist", err)
		}
		if err := Change([]string{"add none 10.0.0.9,udp:9,10.0.0.8", "del four 10.0.0.1,tcp:7,10.0.0.2"}); err != nil {
			return err
		}
		compared("changed", `entry "10.0.0.1,tcp:7,10.0.0.2" of set four: present, absent
entries of set four: 4, 3
entry "10.0.0.9,udp:9,10.0.0.8" of set none: absent, present
entries of set none: 0, 1`)
		if err := errors.Join(Destroy("six"), Create(Set{Name: "six"})); err != nil {
			return err
		}
		if diff, err := Compare(sets()[1]); err != nil || len(diff) == 0 ||
			diff[0] != (linux.Difference{What: "type of set six", Want: "hash:ip,port,ip inet6", Got: "hash:ip,port,ip inet"}) {
			t.Errorf("of another family: %v, %v", diff, err)
		}
		if err := Create(Set{Name: "new"}, Set{Name: "wrong", Entries: []string{"nonsense"}}); err == nil ||
			!strings.Contains(err.Error(), "nonsense") {
			t.Errorf("make a set of nonsense: %v", err)
		}
		if diff, err := Compare(Set{Name: "new"}); err != nil || len(diff) != 1 ||
			diff[0] != (linux.Difference{What: "set new", Want: "present", Got: "absent"}) {
			t.Errorf("what failed has left: %v, %v", diff, err)
		}
		return errors.Join(Destroy(names...), Destroy(names...))
	}))
}

func TestExplain(t *testing.T) {
	absent := &linux.UnsupportedError{What: "use ipset", Missing: `program "ipset"`}
	if err := explain(absent); !errors.Is(err, absent) {
		t.Errorf("a program that is missing is explained as %v", err)
	}
	for _, c := range []struct{ said, missing string }{
		{"Kernel error received: set type not supported", "sets of the type hash:ip,port,ip (CONFIG_IP_SET_HASH_IPPORTIP)"},
		{"Cannot open session to kernel.", "sets of addresses (CONFIG_IP_SET)"},
		{"Kernel error received: Operation not permitted", "CAP_NET_ADMIN"},
		{"Syntax error", ""},
	} {
		u, ok := errors.AsType[*linux.UnsupportedError](explain(errors.New(c.said)))
		if ok != (c.missing != "") || ok && u.Missing != c.missing {
			t.Errorf("explain(%q) = %v, want that %q is missing", c.said, u, c.missing)
		}
	}
}
