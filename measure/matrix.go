package measure

import (
	"fmt"
	"slices"
	"strings"
)

// Matrix says who reached whom in a lab at a time when it was proved: packets of ICMP, UDP and TCP, from every
// container to every other one, to the addresses of hosts, and to groups, counted where they arrived.
type Matrix struct {
	Type       string `json:"type"` // "matrix"; set by Writer
	V          int    `json:"v"`
	Generation int    `json:"gen"`
	Lab        string `json:"lab"`
	When       string `json:"when"` // "before" the first block or "after" the last
	// Filtered says that a filter claims what may arrive. Without one nothing is claimed.
	Filtered bool `json:"filtered"`
	// From are the containers that sent. To are those that were sent to: containers, hosts, "multicast", "broadcast".
	From []string `json:"from,omitempty"`
	To   []string `json:"to,omitempty"`
	// Cells has, by family, a row for each of From with a character for each of To: a [Reach].
	Cells map[string][]string `json:"cells,omitempty"`
	// Tried is how many tries were made, a packet each, by family, of those in Of. The rest was left out for lack of time.
	// Those in Unsent are among them.
	Tried map[string]int `json:"tried,omitempty"`
	Of    map[string]int `json:"of,omitempty"`
	// Arrived is how many of the tries arrived, by what they were: "icmp", "udp", "tcp-syn", "tcp-ack".
	Arrived map[string]int `json:"arrived,omitempty"`
	// Leaks are packets that must not arrive and did, Missing those that must and did not, in words. They are the first
	// ones; LeaksAll and MissingAll count all.
	Leaks      []string `json:"leaks,omitempty"`
	LeaksAll   int      `json:"leaks_all,omitempty"`
	Missing    []string `json:"missing,omitempty"`
	MissingAll int      `json:"missing_all,omitempty"`
	// Unsent is how many of the tries the rights of the containers refused to send, by family. No network and no filter
	// has seen them. UnsentKinds are what they were, in words: "TCP SYN".
	Unsent      map[string]int `json:"unsent,omitempty"`
	UnsentKinds []string       `json:"unsent_kinds,omitempty"`
	// Untried says what could not be tried and, in brackets, why. It is in neither Tried nor Of.
	Untried []string `json:"untried,omitempty"`
	// Untold says why the result of some tries is not known. Unknown is how many of Tried those are, by family.
	// UntoldClaims are the names of the claims that it is about. Older records have only the reason.
	Untold       string         `json:"untold,omitempty"`
	Unknown      map[string]int `json:"unknown,omitempty"`
	UntoldClaims []string       `json:"untold_claims,omitempty"`
	// NotTried says why nothing was tried.
	NotTried string  `json:"not_tried,omitempty"`
	Took     float64 `json:"took"` // s
}

// Reach is what came of the tries from one container to another.
type Reach byte

// What can come of tries.
const (
	ReachNotTried Reach = '-' // nothing was tried, as from a container to itself
	ReachUnsent   Reach = 'x' // the rights of the container refused to send it
	ReachRefused  Reach = 'r' // nothing arrived, as it is claimed
	ReachClosed   Reach = 'c' // nothing arrived, although that is not claimed
	ReachAllowed  Reach = 'a' // what is on the list arrived, and nothing else
	ReachOpen     Reach = 'o' // something arrived, and nothing is claimed
	ReachUntold   Reach = '?' // it cannot be told
	ReachMissing  Reach = 'm' // something on the list did not arrive
	ReachLeak     Reach = 'L' // something arrived that must not
)

// Reaches lists what can come of tries, the least remarkable first.
func Reaches() []Reach {
	return []Reach{
		ReachNotTried, ReachUnsent, ReachRefused, ReachClosed, ReachAllowed, ReachOpen, ReachUntold, ReachMissing, ReachLeak,
	}
}

// Worse returns the more remarkable of two.
func (r Reach) Worse(other Reach) Reach {
	all := Reaches()
	rank := func(r Reach) int {
		for i, x := range all {
			if x == r {
				return i
			}
		}
		return len(all) // written by somebody else: it stays
	}
	if rank(other) > rank(r) {
		return other
	}
	return r
}

// At returns what came of the tries of a family from one place of From to one of To.
func (m *Matrix) At(family string, from, to int) Reach {
	rows := m.Cells[family]
	if from >= len(rows) || to >= len(rows[from]) {
		return ReachNotTried
	}
	return Reach(rows[from][to])
}

// Names of claims about a matrix. See [Proof.Name].
const (
	// MatrixLeaks is that nothing arrives that is not on the list.
	MatrixLeaks = "matrix"
	// MatrixListed is that what is on the list arrives, by UDP and TCP.
	MatrixListed = "listed"
)

// Confined says what the rights of the containers refused to send, "" if nothing.
func (m *Matrix) Confined() string { return confined(m.unsent(), m.UnsentKinds) }

func (m *Matrix) unsent() int { return sum(m.Unsent) }

func sum(byFamily map[string]int) (all int) {
	for _, n := range byFamily {
		all += n
	}
	return all
}

func confined(packets int, kinds []string) string {
	if packets == 0 {
		return ""
	}
	return fmt.Sprintf("rights of the containers refused to send %d packets: %s", packets, strings.Join(kinds, ", "))
}

// Proofs are the claims that the matrix is evidence of. Without a filter, or if nothing was tried, there is none.
func (m *Matrix) Proofs() []Proof {
	if !m.Filtered || m.NotTried != "" {
		return nil
	}
	both := [2]Proof{
		{
			Name: MatrixLeaks, Expected: "only what is on the list arrives", OK: m.LeaksAll == 0,
			Claim: "of ICMP, UDP and TCP that containers send to each other, to hosts and to groups, only what is on the list " +
				"arrives anywhere",
			Detail: first(m.Leaks, m.LeaksAll),
		},
		{
			Name: MatrixListed, Expected: "what is on the list arrives", OK: m.MissingAll == 0,
			Claim:  "UDP, and TCP that opens a connection, arrive at a port that is on the list",
			Detail: first(m.Missing, m.MissingAll),
		},
	}
	beyond := ""
	if len(m.UnsentKinds) > 0 {
		beyond = " (not sent, for lack of rights: " + strings.Join(m.UnsentKinds, ", ") + ")"
	}
	if len(m.Untried) > 0 {
		var what []string
		for _, text := range m.Untried {
			one, _, _ := strings.Cut(text, " (")
			what = append(what, one)
		}
		beyond += " (not tried: " + strings.Join(what, ", ") + ")"
	}
	for i := range both {
		p := &both[i]
		p.Claim += beyond
		if p.OK && (m.UntoldClaims == nil || slices.Contains(m.UntoldClaims, p.Name)) {
			p.Untold = m.Untold
		}
		p.Generation, p.Lab, p.When = m.Generation, m.Lab, m.When
		p.Tried, p.Seen = map[string]int{}, map[string]int{}
		for family, n := range m.Tried {
			n -= m.Unsent[family] + m.Unknown[family]
			p.Tried[family] = n
			if p.OK {
				p.Seen[family] = n
			}
		}
	}
	return both[:]
}

func first(list []string, all int) string {
	switch {
	case len(list) == 0:
		return ""
	case all == 1:
		return list[0]
	}
	return fmt.Sprintf("%s (and %d more)", list[0], all-1)
}

// All returns how many tries were made, and how many there are.
func (m *Matrix) All() (tried, of int) {
	return sum(m.Tried), sum(m.Of)
}

func (m Matrix) appendJSON(b []byte) ([]byte, error) {
	m.Type, m.V = "matrix", Version
	return appendAny(b, m)
}
