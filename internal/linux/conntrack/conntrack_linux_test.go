package conntrack_test

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

const mark = 0x6e74

func filling(count int) conntrack.Filling {
	a := netip.MustParseAddr
	return conntrack.Filling{
		Source: a("10.1.254.1"), Destination: a("192.0.2.1"), Public: a("198.18.0.1"), Count: count, Timeout: time.Hour,
		Mark: mark,
	}
}

// TestFill fills a table with more connections than there are ports, checks their translation, and empties it.
func TestFill(t *testing.T) {
	m := testnet.New(t)
	const count = 70_000
	testnet.Skip(t, m.Do(func() error {
		began := time.Now()
		if err := conntrack.Fill(filling(count)); err != nil {
			return err
		}
		t.Logf("%d in %v", count, time.Since(began))
		if n, err := conntrack.Count(mark); n != count || err != nil {
			t.Errorf("%d are there (%v), want %d", n, err, count)
		}
		if err := conntrack.Flush(0); err != nil {
			return err
		}
		if n, err := conntrack.Count(mark); n != count || err != nil {
			t.Errorf("after others were removed %d are there (%v), want %d", n, err, count)
		}
		if err := conntrack.FlushUnassured(); err != nil {
			return err
		}
		if n, err := conntrack.Count(mark); n != count || err != nil {
			t.Errorf("after those that are not assured were removed %d are there (%v), want %d", n, err, count)
		}
		if err := conntrack.Fill(filling(1)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("one that is there was made: %v", err)
		}
		for range 2 {
			if err := conntrack.Flush(mark); err != nil {
				return err
			}
		}
		if n, err := conntrack.Count(mark); n != 0 || err != nil {
			t.Errorf("after all were removed %d are there (%v)", n, err)
		}
		// The kernel's view of one of them: the answer goes to the public address, not to the source.
		if err := conntrack.Fill(filling(1)); err != nil {
			return err
		}
		text, err := os.ReadFile("/proc/thread-self/net/nf_conntrack")
		if err == nil && (!strings.Contains(string(text),
			"src=10.1.254.1 dst=192.0.2.1 sport=1024 dport=1 src=192.0.2.1 dst=198.18.0.1 sport=1 dport=1024 [ASSURED]")) {
			t.Errorf("it is %s", text)
		}
		p := netip.MustParseAddrPort
		want := []conntrack.Flow{{
			Protocol: unix.IPPROTO_UDP, Answered: true,
			Original: conntrack.Way{Source: p("10.1.254.1:1024"), Destination: p("192.0.2.1:1")},
			Reply:    conntrack.Way{Source: p("192.0.2.1:1"), Destination: p("198.18.0.1:1024")},
		}}
		if got, err := conntrack.List(); !slices.Equal(got, want) || err != nil {
			t.Errorf("List = %v, %v, want %v", got, err, want)
		}
		if n, err := conntrack.Total(); n != 1 || err != nil {
			t.Errorf("Total = %d, %v, want 1", n, err)
		}
		// It is forgotten by its original direction alone, and forgetting what is not there succeeds.
		other := conntrack.Way{Source: p("10.1.254.1:1025"), Destination: p("192.0.2.1:1")}
		six := conntrack.Way{Source: p("[fd00::1]:1024"), Destination: p("[fd00::2]:1")}
		for i, way := range []conntrack.Way{other, six, want[0].Original, want[0].Original} {
			if err := conntrack.Forget(way); err != nil {
				return err
			}
			left := 1 - i/2
			if n, err := conntrack.Total(); n != left || err != nil {
				t.Errorf("after %v was forgotten: Total = %d, %v, want %d", way, n, err, left)
			}
		}
		return nil
	}))
}

func TestBad(t *testing.T) {
	for want, change := range map[string]func(*conntrack.Filling){
		"not an IPv4 address": func(f *conntrack.Filling) { f.Public = netip.MustParseAddr("fd00::1") },
		"-1 connections":      func(f *conntrack.Filling) { f.Count = -1 },
		"with a timeout":      func(f *conntrack.Filling) { f.Timeout = 0 },
		"need a mark":         func(f *conntrack.Filling) { f.Mark = 0 },
	} {
		f := filling(1)
		change(&f)
		if err := conntrack.Fill(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCounter(t *testing.T) {
	m := testnet.New(t)
	testnet.Skip(t, m.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		if err := h.SetUp(1, true); err != nil { // lo
			return err
		}
		at := netip.MustParseAddrPort("127.0.0.1:9")
		c, err := conntrack.NewCounter(at)
		if err != nil {
			return err
		}
		defer c.Close()
		s, err := conntrack.NewSender(at.Addr(), at)
		if err != nil {
			return err
		}
		defer s.Close()
		for i := range 10 {
			if err := s.Send(uint16(5000 + i)); err != nil {
				return err
			}
		}
		n := 0
		for deadline := time.Now().Add(time.Second); n < 10 && time.Now().Before(deadline); {
			more, err := c.Count()
			if err != nil {
				return err
			}
			n += more
		}
		if n != 10 {
			t.Errorf("%d packets of 10 were counted", n)
		}
		return nil
	}))
}
