package pcapng_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/pcapng"
	"github.com/nettoll/nettoll/internal/testnet"
)

// tcpdump reads the file: each frame with its length, its time to the nanosecond and its link.
func TestTcpdump(t *testing.T) {
	program := testnet.Program(t, "tcpdump", "tcpdump")
	arp := append(bytes.Repeat([]byte{0xff}, 6), 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1,
		2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2)
	path := filepath.Join(t.TempDir(), "frames.pcapng")
	data := pcapng.Encode([]string{"host1", "host2"}, []pcapng.Frame{
		{Link: 0, At: time.Unix(1, 23456789), Data: arp},
		{Link: 1, At: time.Unix(2_000_000_000, 7), Data: append(arp, 0, 0, 0)},
	})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "-nn", "-tt", "--nano", "-e", "-r", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"1.023456789 02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, ethertype ARP (0x0806), length 42: Request who-has 10.0.0.2 " +
			"tell 10.0.0.1, length 28",
		"2000000000.000000007 02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, ethertype ARP (0x0806), length 45: ",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("tcpdump says\n%swant %q", out, want)
		}
	}
	for _, name := range []string{"host1", "host2"} {
		if !bytes.Contains(data, []byte(name)) {
			t.Errorf("no name of link %s", name)
		}
	}
}
