package iptables

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// Load loads a table into a namespace whose own table is empty, in one transaction: all of it or nothing. If the kernel
// lacks something, the error is a [linux.UnsupportedError].
func (t Tool) Load(want Table) error {
	there, err := t.there()
	if err == nil && there {
		var list []linux.Difference
		if list, err = t.Compare(Table{}); err == nil && len(list) > 0 {
			err = fmt.Errorf("%s: want %s, got %s: %w", list[0].What, list[0].Want, list[0].Got, fs.ErrExist)
		}
	}
	if err != nil {
		return fmt.Errorf("load %s: %w", t.what(), err)
	}
	text := want.text()
	_, err = t.run("restore", text, "--wait")
	if errors.Is(err, errTooLong) {
		err = t.pieces(want)
	}
	if err != nil {
		return t.explain(fmt.Errorf("load %s: %w", t.what(), err), text)
	}
	return nil
}

// piece is the number of rules in a message if the process may not use a larger buffer. Only root of the first user
// namespace may (SO_SNDBUFFORCE, socket(7)). About 300 IPv4 rules without connection tracking fit into the default
// buffer, net.core.wmem_default.
const piece = 250

// pieces loads a table in several transactions. From the first one on, all packets are dropped.
func (t Tool) pieces(want Table) error {
	var first Table
	for _, c := range want.Chains {
		if c.Policy == "" {
			c.Rules = nil
		}
		first.Chains = append(first.Chains, c)
	}
	if _, err := t.run("restore", first.text(), "--wait"); err != nil {
		return err
	}
	for _, c := range want.Chains {
		if c.Policy != "" {
			continue
		}
		for rules := range slices.Chunk(c.Rules, piece) {
			lines := make([]string, len(rules))
			for i, r := range rules {
				lines[i] = "-A " + c.Name + " " + r
			}
			if err := t.parts(lines); err != nil {
				return errors.Join(err, t.Unload())
			}
		}
	}
	return nil
}

// parts adds rules, split in half if they do not fit.
func (t Tool) parts(lines []string) error {
	err := t.Change(lines)
	if half := len(lines) / 2; half > 0 && errors.Is(err, errTooLong) {
		err = errors.Join(t.parts(lines[:half]), t.parts(lines[half:]))
	}
	return err
}

// Change adds and deletes rules in one transaction. Lines are in the format of iptables-restore(8): "-A CHAIN RULE",
// "-I CHAIN RULE", "-D CHAIN RULE".
func (t Tool) Change(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	if _, err := t.run("restore", "*"+name+"\n"+strings.Join(lines, "\n")+"\nCOMMIT\n", "--wait",
		"--noflush"); err != nil {
		return fmt.Errorf("change %s: %w", t.what(), err)
	}
	return nil
}

// Compare reads the table and returns the differences.
func (t Tool) Compare(want Table) ([]linux.Difference, error) {
	sleeps, err := t.dormant()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.what(), err)
	}
	out, err := t.run("save", "", "-t", name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.what(), err)
	}
	got, err := Parse(bytes.NewReader(out))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.what(), err)
	}
	list := compare(want, got)
	if sleeps {
		list = append(list, linux.Difference{What: t.what(), Want: "active", Got: "dormant"})
	}
	return list, nil
}

// Unload empties the table, and removes it if the kernel can remove tables. A table that is already gone is not an
// error.
func (t Tool) Unload() error {
	there, err := t.there()
	switch {
	case err == nil && !there:
		return nil
	case err != nil:
	case t.Variant == NFT:
		err = t.remove()
	default:
		empty := Table{}
		for _, c := range []string{"INPUT", "FORWARD", "OUTPUT"} {
			empty.Chains = append(empty.Chains, Chain{Name: c, Policy: "ACCEPT"})
		}
		_, err = t.run("restore", empty.text(), "--wait")
	}
	if err != nil {
		return fmt.Errorf("empty %s: %w", t.what(), err)
	}
	return nil
}

// Counters reads the counters of a hook.
func (t Tool) Counters(hook string) (Counters, error) {
	out, err := t.run("", "", "-S", hook, "-v")
	if err != nil {
		return Counters{}, fmt.Errorf("counters of chain %s: %w", hook, err)
	}
	return ParseCounters(bytes.NewReader(out), hook)
}

// Version returns the version that the programs print: "iptables v1.8.9 (nf_tables)".
func (t Tool) Version() (string, error) {
	out, err := t.run("", "", "--version")
	return strings.TrimSpace(string(out)), err
}

// dormant reports whether the table is dormant, so that no packet reaches its chains. Its programs do not report that
// (NFT_TABLE_F_DORMANT, include/uapi/linux/netfilter/nf_tables.h).
func (t Tool) dormant() (bool, error) {
	if t.Variant != NFT {
		return false, nil
	}
	// Flags are in network byte order, but the library (0.3) reads them in that of the machine. There are three.
	const flag, swapped = unix.NFT_TABLE_F_DORMANT, unix.NFT_TABLE_F_DORMANT << 24
	table, err := t.table()
	return table != nil && table.Flags&(flag|swapped) != 0, err
}

// table returns the nf_tables table; nil if there is none.
func (t Tool) table() (*nftables.Table, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, err
	}
	tables, err := c.ListTablesOfFamily(t.family())
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) {
		return nil, &linux.UnsupportedError{
			What: "use " + t.program(""), Missing: "nftables (CONFIG_NF_TABLES)", Hint: "use the variant legacy", Err: err,
		}
	}
	for _, table := range tables {
		if table.Name == name {
			return table, err
		}
	}
	return nil, err
}

// there reports whether the namespace has the table, without making it: the programs make it when they look.
func (t Tool) there() (bool, error) {
	if t.Variant == NFT {
		table, err := t.table()
		return table != nil, err
	}
	names, err := t.legacy()
	return slices.Contains(names, name), err
}

// legacy returns the names of the legacy variant's tables that the namespace has, without making any.
func (t Tool) legacy() ([]string, error) {
	file := "/proc/thread-self/net/ip_tables_names"
	if t.V6 {
		file = "/proc/thread-self/net/ip6_tables_names"
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) { // the module may be loaded when it is needed
		return nil, nil
	}
	return strings.Fields(string(data)), err
}

// The tables of the legacy variant in [Contents], by family.
const (
	legacy4 = "legacy ip "
	legacy6 = "legacy ip6 "
)

// Contents returns the tables of the legacy variant, of both families ("legacy ip nat"), each with its chains and how
// many rules they have. Those of the other variant are tables of nftables. It makes no table. A namespace has none if
// the programs are missing that could have made one. The calling thread must be locked.
func Contents() (map[string]map[string]int, error) {
	found := map[string]map[string]int{}
	for prefix, t := range map[string]Tool{legacy4: {Variant: Legacy}, legacy6: {Variant: Legacy, V6: true}} {
		names, err := t.legacy()
		if err != nil {
			return nil, fmt.Errorf("list tables of %s: %w", t.program(""), err)
		}
		for _, table := range names {
			out, err := t.run("save", "", "-t", table)
			if errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read table %q: %w", table, err)
			}
			all, err := parse(bytes.NewReader(out), table)
			if err != nil {
				return nil, fmt.Errorf("read table %q of %s: %w", table, t.program(""), err)
			}
			chains := map[string]int{}
			for _, c := range all.Chains {
				chains[c.Name] = len(c.Rules)
			}
			found[prefix+table] = chains
		}
	}
	return found, nil
}

// Clear empties a table of the legacy variant, as [Contents] names it: all rules go, and all chains but the built-in
// ones, whose policies stay. It reports whether the name is one of those. The calling thread must be locked.
func Clear(table string) (ours bool, err error) {
	t := Tool{Variant: Legacy}
	only, ours := strings.CutPrefix(table, legacy4)
	if !ours {
		t.V6 = true
		if only, ours = strings.CutPrefix(table, legacy6); !ours {
			return false, nil
		}
	}
	if _, err := t.run("restore", "*"+only+"\nCOMMIT\n", "--wait"); err != nil {
		return true, fmt.Errorf("empty table %q: %w", only, err)
	}
	return true, nil
}

func (t Tool) remove() error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	c.DelTable(&nftables.Table{Family: t.family(), Name: name})
	if err := c.Flush(); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func (t Tool) family() nftables.TableFamily {
	if t.V6 {
		return nftables.TableFamilyIPv6
	}
	return nftables.TableFamilyIPv4
}

// errTooLong reports that a transaction does not fit into the buffer of a socket.
var errTooLong = errors.New("the transaction is too long")

// run runs a program until it ends and returns its output. The calling thread must be locked.
func (t Tool) run(does, input string, args ...string) ([]byte, error) {
	program := t.program(does)
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, &linux.UnsupportedError{
			What: "run " + program, Missing: fmt.Sprintf("program %q", program), Hint: "install the package iptables", Err: err,
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Args[0] = program
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	err = process.RunHere(cmd, process.Options{})
	if err == nil {
		return stdout.Bytes(), nil
	}
	said := strings.Join(strings.FieldsFunc(stderr.String(), func(r rune) bool { return r == '\n' }), "; ")
	if strings.Contains(said, "Message too long") || strings.Contains(said, "No buffer space") {
		err = errTooLong
	}
	return nil, fmt.Errorf("%s: %w: %s", program, err, said)
}

// explain turns a program's error about something that the kernel lacks into a [linux.UnsupportedError].
func (t Tool) explain(err error, text string) error {
	var missing, hint string
	said := err.Error()
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(said, w) })
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported): // the program did not run
		return err
	case has("you must be root", "Operation not permitted", "Permission denied"):
		missing, hint = "CAP_NET_ADMIN", "run it as root"
	case has("an't initialize"):
		missing, hint = t.what(), "load the kernel's modules for it, or use the other variant or the filter nftables"
	case has("No chain/target/match", "ouldn't load match", "ot supported", "No such file or directory",
		"missing kernel module", "nvalid argument"):
		missing, hint = lacking(said, text), "load the kernel's modules for it, or use the filter nftables"
	default:
		return err
	}
	return &linux.UnsupportedError{What: "load " + t.what(), Missing: missing, Hint: hint, Err: err}
}

// lacking names the matches of the line in the error message, or of all lines if it names none.
func lacking(said, text string) string {
	if m := regexp.MustCompile(`line:? (\d+)`).FindStringSubmatch(said); m != nil {
		lines := strings.Split(text, "\n")
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 && n <= len(lines) && strings.HasPrefix(lines[n-1], "-A ") {
			text = lines[n-1]
		}
	}
	var names []string
	for _, m := range regexp.MustCompile(` -m (\w+)`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return "one of the matches of iptables " + strings.Join(slices.Compact(names), ", ")
}
