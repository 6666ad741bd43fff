package catalogue_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/cli"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/stack/stacktest"
)

// TestMain lets the test binary be the hosts, agents and workers of its own runs, by nettoll's real command line with
// the kinds and steps of the toys.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"host-init", "agent", "worker", "daemon"}, os.Args[1]) {
		streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(cli.RunWith(context.Background(), withToys(withHose()), "", streams, os.Args[1:]))
	}
	testnet.Main(m)
}

func TestKinds(t *testing.T) { stacktest.Conformance(t, catalogue.New().Kinds) }

// toys is a kind that only this test knows: how much each container lets a socket hold.
type toys struct{}

func (toys) Describe() stack.Description {
	return stack.Description{
		Name: "toy", Plural: "toys", Summary: "Sets what sockets may hold.", Sign: "+", Default: stack.None,
	}
}

func (toys) Parts() []stack.Part {
	return []stack.Part{{
		Description: part.Description{
			Name: "ball", Summary: "a limit of the listen queue", Implementation: "kernel",
			Params: part.List{{Name: "size", Default: "100", Summary: "connections", Check: part.CountBetween(1, 1000)}},
		},
		Value: toys{},
	}}
}

// Build sets the limit in each container that has a namespace of its own.
func (toys) Build(site *network.Site, s stack.Stack) error {
	_, params, ok := stack.PartOf[toys](s)
	if !ok {
		return nil
	}
	for h, ends := range site.Endpoints {
		for _, e := range ends {
			if e.Namespace != "" {
				site.Plans[h].Steps = append(site.Plans[h].Steps, host.Sysctl{
					NS: e.Namespace, Key: "net.core.somaxconn", Value: params["size"],
				})
			}
		}
	}
	return nil
}

// Refuse leaves it out where containers have no namespace of their own.
func (toys) Refuse(s stack.Stack, _ int) string {
	_, _, ok := stack.PartOf[toys](s)
	shared, params, shares := stack.PartOf[network.Sharer](s)
	if ok && shares && shared.Shares(params) {
		return "there is nothing to play with"
	}
	return ""
}

func withToys(c catalogue.Catalogue) catalogue.Catalogue {
	c.Kinds = slices.Insert(c.Kinds, 2, stack.Kind(toys{})) // behind filters
	return c
}

// A new kind is a folder and its place in the list of kinds: files, flags, ids, plans, runs, exports and comparisons
// know it.
func TestToyKind(t *testing.T) {
	testnet.Root(t)
	c := withToys(catalogue.New())
	stacktest.Conformance(t, c.Kinds)
	dir := t.TempDir()
	nettoll := func(want int, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := cli.RunWith(t.Context(), c, "", cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs},
			args); code != want {
			t.Fatalf("nettoll %q: exit status %d, want %d\n%s%s", args, code, want, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	contains := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in:\n%s", w, text)
			}
		}
	}
	contains(nettoll(0, "list", "toy"), "toy  ball  a limit of the listen queue", "size=100")
	contains(nettoll(2, "plan", "--toy", "bal"), `unknown toy "bal" (known: none, ball); did you mean ball?`)
	contains(nettoll(2, "plan", "--network", "bridge", "--toy", "ball(size=0)"), `toy.ball.size: invalid value "0"`)
	file := filepath.Join(dir, "toy.yaml")
	if err := os.WriteFile(file, []byte("factors: {network: bridge, filter: [none, nftables], toy: {ball: {size: [7, "+
		"100]}}, placement: same-host}\nworkloads: udp-rr\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(nettoll(0, "plan", "--hosts", file), "bridge+ball(size=7)", "bridge+nftables+ball",
		"net.core.somaxconn=7 in src0", "net.core.somaxconn=100 in snk0")
	for _, run := range []string{"old", "new"} {
		nettoll(0, "run", file, "--time", "1s", "-o", filepath.Join(dir, run))
	}
	csv := nettoll(0, "report", filepath.Join(dir, "new"), "--format", "csv")
	contains(csv, "cell,network,filter,toy,tunnel,encryption,runtime,placement,",
		"bridge+nftables+ball(size=7)/same-host/1/", ",bridge,nftables,ball(size=7),none,none,netns,same-host,")
	contains(nettoll(0, "report", filepath.Join(dir, "new"), "--format", "jsonl"),
		`"filter":"none","toy":"ball(size=7)","tunnel":"none"`)
	contains(nettoll(0, "report", filepath.Join(dir, "new"), "--format", "html"), "<th scope=\"col\">toy</th>",
		"ball(size=7)")
	contains(nettoll(0, "compare", filepath.Join(dir, "old"), filepath.Join(dir, "new"), "--format", "csv"),
		"cell,network,filter,toy,", "ball(size=7)")
}
