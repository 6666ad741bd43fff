package ipset

import (
	"bufio"
	"fmt"
	"io"
	"math/bits"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
)

// Type is the type of the sets: two addresses, with a protocol and port, or the type of a message, between them.
const Type = "hash:ip,port,ip"

// A Set is a set of that type.
type Set struct {
	Name string
	V6   bool
	// Entries are written as for ipset(8): "10.1.1.0,udp:20000,10.1.1.1". All are different.
	Entries []string
}

// Check returns an error if the program is missing.
func Check() error {
	if _, err := exec.LookPath("ipset"); err != nil {
		return &linux.UnsupportedError{
			What: "use ipset", Missing: `program "ipset"`,
			Hint: "install the package ipset, or use the filter nftables, which has sets of its own", Err: err,
		}
	}
	return nil
}

func (s Set) family() string {
	if s.V6 {
		return "inet6"
	}
	return "inet"
}

// Sizes of sets. The hash table's is in buckets, from the default (IPSET_DEFAULT_HASHSIZE,
// include/linux/netfilter/ipset/ip_set_hash.h) to one per entry, so that it need not grow while it is loaded. The
// others are the most entries of a set (IPSET_DEFAULT_MAXELEM), and how many can at least be added to a full list.
const (
	leastBuckets = 1024
	mostEntries  = 65536
	room         = 4096
)

// text returns the sets in the format of "ipset restore".
func text(sets []Set) string {
	var b strings.Builder
	for _, s := range sets {
		n := len(s.Entries)
		buckets := max(leastBuckets, 1<<bits.Len(uint(max(1, n)-1)))
		fmt.Fprintf(&b, "create %s %s family %s hashsize %d maxelem %d\n", s.Name, Type, s.family(), buckets,
			max(mostEntries, n+room))
	}
	for _, s := range sets {
		for _, e := range s.Entries {
			b.WriteString("add " + s.Name + " " + e + "\n")
		}
	}
	return b.String()
}

// normal returns an entry in a canonical form: versions differ in the names of ICMPv6 and of messages.
func normal(entry string) string {
	f := strings.Split(entry, ",")
	if len(f) != 3 {
		return entry
	}
	protocol, rest, ok := strings.Cut(f[1], ":")
	if !ok {
		return entry
	}
	switch protocol {
	case "ipv6-icmp":
		protocol = "icmpv6"
	case "17":
		protocol = "udp"
	case "6":
		protocol = "tcp"
	}
	switch protocol + " " + rest {
	case "icmp 8/0", "icmpv6 128/0":
		rest = "echo-request"
	case "icmp 0/0", "icmpv6 129/0":
		rest = "echo-reply"
	}
	f[1] = protocol + ":" + rest
	return strings.Join(f, ",")
}

// Parse reads the output of "ipset save" for one set, with entries as [normal] writes them. The kind is its type and
// family: "hash:ip,port,ip inet".
func Parse(r io.Reader, name string) (kind string, entries []string, err error) {
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		f := strings.Fields(s.Text())
		switch {
		case len(f) == 0:
		case len(f) >= 3 && f[0] == "create" && f[1] == name:
			kind = f[2]
			if i := slices.Index(f, "family"); i > 0 && i+1 < len(f) {
				kind += " " + f[i+1]
			}
		case len(f) >= 3 && f[0] == "add" && f[1] == name:
			entries = append(entries, normal(f[2]))
		default:
			return "", nil, fmt.Errorf("line %d, %q: nothing of set %s", n, s.Text(), name)
		}
	}
	if err := s.Err(); err != nil {
		return "", nil, err
	}
	if kind == "" {
		return "", nil, fmt.Errorf("set %s is not there", name)
	}
	return kind, entries, nil
}

// pointer is the size of a pointer in the kernel, in bytes.
const pointer = bits.UintSize / 8

// parseMemory reads the output of "ipset list -terse" for one set. Its size in memory covers only the entries; the hash
// table also has a pointer for each bucket (struct htable, net/netfilter/ipset/ip_set_hash_gen.h).
func parseMemory(out string) (size int64, err error) {
	f := strings.Fields(out)
	buckets := int64(0)
	for i, word := range f[:max(0, len(f)-1)] {
		switch {
		case word == "hashsize":
			buckets, err = strconv.ParseInt(f[i+1], 10, 64)
		case word == "memory:" && i > 1 && f[i-2] == "Size":
			size, err = strconv.ParseInt(f[i+1], 10, 64)
		}
		if err != nil {
			return 0, err
		}
	}
	if size == 0 || buckets == 0 {
		return 0, fmt.Errorf("no size in %q", out)
	}
	return size + buckets*pointer, nil
}

// maxDifferences is the largest number of entries that an error names.
const maxDifferences = 5

// compare returns the differences between a set and the entries read from the kernel.
func (s Set) compare(kind string, entries []string) []linux.Difference {
	var list []linux.Difference
	if want := Type + " " + s.family(); kind != want {
		list = append(list, linux.Difference{What: "type of set " + s.Name, Want: want, Got: kind})
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e] = true
	}
	for _, e := range s.Entries {
		e = normal(e)
		if !there[e] && len(list) < maxDifferences {
			list = append(list, linux.Difference{
				What: fmt.Sprintf("entry %q of set %s", e, s.Name), Want: linux.Present, Got: linux.Absent,
			})
		}
		delete(there, e)
	}
	more := make([]string, 0, len(there))
	for e := range there {
		more = append(more, e)
	}
	slices.Sort(more)
	for _, e := range more[:min(len(more), maxDifferences)] {
		list = append(list, linux.Difference{
			What: fmt.Sprintf("entry %q of set %s", e, s.Name), Want: linux.Absent, Got: linux.Present,
		})
	}
	if len(entries) != len(s.Entries) {
		list = append(list, linux.Difference{
			What: "entries of set " + s.Name, Want: strconv.Itoa(len(s.Entries)), Got: strconv.Itoa(len(entries)),
		})
	}
	return list
}
