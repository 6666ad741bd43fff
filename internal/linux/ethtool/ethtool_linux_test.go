package ethtool_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/ethtool"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestOffloads(t *testing.T) {
	m := testnet.New(t)
	err := m.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		if _, err = h.AddVeth(link.Veth{Name: "a", PeerName: "b", PeerNS: m.NS}); err != nil {
			return err
		}
		for _, o := range ethtool.Offloads() {
			was, err := ethtool.Get("a", o)
			if err != nil {
				return err
			}
			for _, want := range []bool{!was, was} {
				if err := ethtool.Set("a", o, want); err != nil {
					return err
				}
				if got, err := ethtool.Get("a", o); got != want || err != nil {
					t.Errorf("%s switched to %t is %t (%v)", o, want, got, err)
				}
			}
		}
		// The kernel would not report this.
		if err := errors.Join(ethtool.Set("a", ethtool.TSO, false), ethtool.Set("a", ethtool.TX, false)); err != nil {
			return err
		}
		if err := ethtool.Set("a", ethtool.TSO, true); !errors.Is(err, errors.ErrUnsupported) ||
			!strings.Contains(err.Error(), "checksums") {
			t.Errorf("TSO without checksums: %v", err)
		}
		if err := ethtool.Set("lo", ethtool.TX, false); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("lo without checksums: %v", err)
		}
		for _, err := range []error{
			ethtool.Set("none", ethtool.TX, true), ethtool.Set(strings.Repeat("x", 16), ethtool.TX, true),
			ethtool.Set("a", "wings", true),
		} {
			if err == nil || errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("an error was to be: %v", err)
			}
		}
		return nil
	})
	testnet.Skip(t, err)
}
