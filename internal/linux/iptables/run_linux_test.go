package iptables

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestLacking(t *testing.T) {
	text := stateful().text()
	for _, c := range []struct{ said, want string }{
		{"iptables-restore: line 7 failed", "one of the matches of iptables conntrack, udp"},
		{
			"line 9: RULE_APPEND failed (No such file or directory): rule in chain FORWARD",
			"one of the matches of iptables conntrack, icmp, udp",
		},
		{"Error occurred at line: 4", "one of the matches of iptables conntrack"},
		{"", "one of the matches of iptables conntrack, icmp, udp"},
	} {
		if got := lacking(c.said, text); got != c.want {
			t.Errorf("lacking(%q) = %q, want %q", c.said, got, c.want)
		}
	}
	absent := &linux.UnsupportedError{What: "run iptables-legacy-restore", Missing: `program "iptables-legacy-restore"`}
	if err := (Tool{Variant: Legacy}).explain(absent, text); !errors.Is(err, absent) {
		t.Errorf("a program that is missing is explained as %v", err)
	}
	err := Tool{Variant: Legacy}.explain(errors.New("can't initialize iptables table `filter': Table does not exist"),
		text)
	if u, ok := errors.AsType[*linux.UnsupportedError](err); !ok || u.Missing != `table "filter" of iptables-legacy` {
		t.Errorf("explain = %v, want that the table is missing", err)
	}
}

// tools calls f in a namespace of its own with each of the tools.
func tools(t *testing.T, f func(t *testing.T, tool Tool, want Table) error) {
	for _, variant := range []string{NFT, Legacy} {
		for _, v6 := range []bool{false, true} {
			tool, want := Tool{variant, v6}, stateful()
			if v6 {
				want = stateless()
			}
			t.Run(tool.program(""), func(t *testing.T) {
				testnet.Skip(t, Check(variant))
				testnet.Skip(t, testnet.New(t).Do(func() error { return f(t, tool, want) }))
			})
		}
	}
}

// expect returns an error unless the table is as wanted or, if difference is given, unless a difference contains that
// text.
func (t Tool) expect(want Table, difference string) error {
	diff, err := t.Compare(want)
	if err != nil {
		return err
	}
	for _, d := range diff {
		if difference != "" && strings.Contains(d.What+": "+d.Want+", "+d.Got, difference) {
			return nil
		}
	}
	if difference != "" || len(diff) > 0 {
		return errors.New("differences: " + cmp.Diff([]linux.Difference(nil), diff) + ", want " + difference)
	}
	return nil
}

// grown returns an error unless the table has grown, if its length is known.
func (t Tool) grown(before int64) error {
	if now, err := t.Memory(); err == nil && now <= before {
		return fmt.Errorf("with a rule more it takes %d bytes, and %d before", now, before)
	}
	return nil
}

func TestTable(t *testing.T) {
	tools(t, func(t *testing.T, tool Tool, want Table) error {
		if err := errors.Join(tool.Unload(), tool.Load(want), tool.expect(want, "")); err != nil {
			return err
		}
		if err := tool.Load(want); !errors.Is(err, fs.ErrExist) {
			t.Errorf("load it again: %v, want fs.ErrExist", err)
		}
		loaded, err := tool.Memory()
		if known := tool.Variant == Legacy; known != (err == nil) || known != (loaded > 0) {
			t.Errorf("Memory = %d, %v", loaded, err)
		}
		own := want.Chains[len(want.Chains)-1].Name
		added := "-s 10.9.9.9/32 -j ACCEPT"
		if tool.V6 {
			added = "-s fd09::9/128 -j ACCEPT"
		}
		if err := errors.Join(
			tool.Change([]string{"-A " + own + " " + added}), tool.expect(want, "rules of chain "+own), tool.grown(loaded),
			tool.Change([]string{"-D " + own + " " + added}), tool.expect(want, ""),
			tool.Change(nil),
		); err != nil {
			return err
		}
		if c, err := tool.Counters(want.Chains[0].Name); err != nil || c != (Counters{}) {
			t.Errorf("Counters = %v, %v, want none yet", c, err)
		}
		return errors.Join(tool.Unload(), tool.Unload(), tool.expect(Table{}, ""),
			tool.expect(want, "chain "+own+": present, absent"), tool.Load(want), tool.Unload())
	})
}

// TestPieces loads a table in transactions that fit into every buffer.
func TestPieces(t *testing.T) {
	tools(t, func(t *testing.T, tool Tool, want Table) error {
		first := &want.Chains[0]
		for i := range want.Chains {
			if want.Chains[i].Policy == "" {
				first = &want.Chains[i]
			}
		}
		rule := first.Rules[0]
		for len(first.Rules) < 3*piece+1 {
			first.Rules = append(first.Rules, rule)
		}
		return errors.Join(tool.pieces(want), tool.expect(want, ""), tool.Unload(), tool.expect(Table{}, ""))
	})
}

func TestTampering(t *testing.T) {
	tools(t, func(t *testing.T, tool Tool, want Table) error {
		hook, own := want.Chains[0].Name, OwnChain(want.Chains[0].Name)
		for _, c := range []struct{ args, difference string }{
			{"-D " + hook + " 1", "rule 1 of chain " + hook},
			{"-I " + hook + " -j ACCEPT", "rule 1 of chain " + hook + ": "},
			{"-P " + hook + " ACCEPT", "policy of chain " + hook + ": DROP, ACCEPT"},
			{"-F " + own, "rule 1 of chain " + own},
			{"-A " + own + " -j ACCEPT", "chain " + own + ": none, -j ACCEPT"},
			{"-R " + own + " 1 -j ACCEPT", "rule 1 of chain " + own},
			{"-N others", "chain others: absent, present"},
			{"-F", "rules of chain " + hook},
		} {
			if err := tool.Load(want); err != nil {
				return err
			}
			if out, err := exec.Command(tool.program(""), strings.Fields(c.args)...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", c.args, err, out)
			}
			if err := errors.Join(tool.expect(want, c.difference), tool.Unload()); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestDormant finds a table that nft has put to sleep.
func TestDormant(t *testing.T) {
	program := testnet.Program(t, "nft", "nftables")
	tools(t, func(t *testing.T, tool Tool, want Table) error {
		if tool.Variant != NFT {
			return nil
		}
		if err := tool.Load(want); err != nil {
			return err
		}
		family := map[bool]string{false: "ip", true: "ip6"}[tool.V6]
		if out, err := exec.Command(program, "add", "table", family, name, "{ flags dormant ; }").CombinedOutput(); err != nil {
			t.Errorf("let the table sleep: %v: %s", err, out)
		}
		return errors.Join(tool.expect(want, "active, dormant"), tool.Unload())
	})
}

// asUser is the variable that marks this program as started by TestAsUser.
const asUser = "NETTOLL_IPTABLES_AS_USER"

// TestAsUser loads more rules than fit into one message of a user who is root only in a user namespace.
func TestAsUser(t *testing.T) {
	testnet.Root(t)
	testnet.Skip(t, Check(NFT))
	tool, want := Tool{NFT, true}, stateless()
	own := &want.Chains[2]
	for len(own.Rules) < 1000 {
		own.Rules = append(own.Rules, "-s fd00::1/128 -d fd00::2/128 -p tcp -m tcp --sport 7:9 ! --tcp-flags SYN,ACK SYN "+
			"-m conntrack --ctstate NEW -j ACCEPT")
	}
	if os.Getenv(asUser) != "" {
		runtime.LockOSThread()
		if _, err := tool.run("restore", want.text(), "--wait"); !errors.Is(err, errTooLong) {
			t.Errorf("load it in one message: %v, want that it is too long: the test tries nothing", err)
		}
		if err := errors.Join(tool.Load(want), tool.expect(want, ""), tool.Unload()); err != nil {
			t.Error(err)
		}
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAsUser$", "-test.v")
	cmd.Env = append(os.Environ(), asUser+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	testnet.Skip(t, process.Start(cmd, process.Options{User: true}))
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "PASS: TestAsUser") {
		t.Errorf("as user: %v\n%s", err, out.String())
	}
}
