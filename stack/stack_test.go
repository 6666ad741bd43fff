package stack_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// toy is a kind for tests.
type toy struct {
	stack.Description
	parts []stack.Part
}

func (t toy) Describe() stack.Description { return t.Description }
func (t toy) Parts() []stack.Part         { return t.parts }

func made(name string, params ...part.Param) stack.Part {
	return stack.Part{Description: part.Description{Name: name, Params: params}, Value: name}
}

// kinds returns three kinds. The part "ovs" is in two of them, which have the same sign.
func kinds() stack.Kinds {
	number := part.Param{Name: "n", Default: "0"}
	text := part.Param{Name: "text", Default: "x"}
	return stack.Kinds{
		toy{stack.Description{Name: "network", Plural: "networks"}, []stack.Part{made("bridge", number, text), made("ovs")}},
		toy{
			stack.Description{Name: "filter", Plural: "filters", Sign: "+", Default: stack.None},
			[]stack.Part{made("ovs", number), made("nft", number)},
		},
		toy{
			stack.Description{Name: "tunnel", Plural: "tunnels", Sign: "+", Default: stack.None},
			[]stack.Part{made("ovs", text), made("vxlan", number, text)},
		},
		toy{
			stack.Description{Name: "runtime", Plural: "runtimes", Sign: "@", Default: "netns"},
			[]stack.Part{made("netns", number), made("lxc")},
		},
	}
}

func TestIDs(t *testing.T) {
	k := kinds()
	for written, want := range map[string]string{
		"bridge":                         "bridge",
		"bridge@netns":                   "bridge",
		"bridge+none+none@netns(n=0)":    "bridge",
		"bridge(n=0)+nft(n=2)":           "bridge+nft(n=2)",
		"bridge+ovs":                     "bridge+ovs",
		"bridge+filter:ovs":              "bridge+ovs",
		"bridge+tunnel:ovs":              "bridge+tunnel:ovs",
		"bridge+ovs+ovs":                 "bridge+ovs+ovs",
		"ovs+vxlan(n=1)@lxc":             "ovs+vxlan(n=1)@lxc",
		"bridge@netns(n=3)":              "bridge@netns(n=3)",
		`bridge(text="a+b@c/(d)")+vxlan`: `bridge(text="a+b@c/(d)")+vxlan`,
		"bridge(text=a+b@c)+vxlan":       "bridge(text=a+b@c)+vxlan",
		"network:bridge+nft":             "bridge+nft",
	} {
		s, err := k.Parse(written)
		if err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		if got := k.ID(s); got != want {
			t.Errorf("%s is written %s, want %s", written, got, want)
		}
		again, err := k.Parse(k.ID(s))
		if err != nil || !again.Equal(s) {
			t.Errorf("%s, written as %s, is read as %v (%v)", written, k.ID(s), again, err)
		}
	}
}

func TestWrongIDs(t *testing.T) {
	k := kinds()
	for written, want := range map[string]string{
		"":                     `unknown network "" (known: bridge, ovs)`,
		"brdge":                `unknown network "brdge" (known: bridge, ovs)`,
		"nft":                  "has no network (known: bridge, ovs)",
		"bridge+nftt":          `unknown filter or tunnel "nftt" (known: none, ovs, nft, vxlan)`,
		"bridge+vxlan+nft":     `"nft" follows a part of the last kind (valid order: network+filter+tunnel@runtime)`,
		"bridge@nft":           `unknown runtime "nft" (known: netns, lxc)`,
		"bridge@lxc+nft":       "follows a part of the last kind",
		"bridge+cloud:x":       `unknown kind "cloud" (known: network, filter, tunnel, runtime)`,
		"bridge+network:ovs":   `network "ovs" follows a network`,
		"bridge+runtime:lxc":   `runtime "lxc" follows the sign "+" (valid: "@")`,
		"bridge(m=1)":          `network bridge has no parameter "m" (valid: n, text)`,
		"bridge+nft(n=1":       "the closing parenthesis is missing",
		"bridge+nft(n=1,n=2)":  `parameter "n" is given twice`,
		"bridge+filter:ovs(=)": "is not parameter=value",
	} {
		s, err := k.Parse(written)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v and the error %v, want one with %q", written, s, err, want)
		}
	}
	if _, err := k.Parse("brdge"); !errors.As(err, new(*part.UnknownError)) {
		t.Errorf("%v is no UnknownError", err)
	}
}

func TestChoices(t *testing.T) {
	k := kinds()
	bridge, err := k.Choose("network", "bridge", map[string]string{"n": "7"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := k.Complete(stack.Stack{bridge})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"kind":"network","name":"bridge","params":{"n":"7","text":"x"}},{"kind":"filter","name":"none"},{"kind":"tunnel","name":"none"},` +
		`{"kind":"runtime","name":"netns","params":{"n":"0"}}]`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("a stack in JSON (-want +got):\n%s", diff)
	}
	if v, params, ok := stack.PartOf[string](s); !ok || v != "bridge" || params["n"] != "7" {
		t.Errorf("the first string is %q with %v, %v", v, params, ok)
	}
	if _, _, ok := stack.PartOf[int](s); ok {
		t.Error("a stack of strings has an int")
	}
	if all := stack.PartsOf[string](k); len(all) != 8 {
		t.Errorf("%d parts: %v", len(all), all)
	}
	var again stack.Stack
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if again, err = k.Complete(again); err != nil || !again.Equal(s) {
		t.Errorf("a stack is read from JSON as %v (%v)", again, err)
	}
	if err := json.Unmarshal([]byte(`[{"kind":"network","name":"cni"}]`), &again); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Complete(again); err == nil || !strings.Contains(err.Error(), `unknown network "cni"`) {
		t.Errorf("a stack of an unknown network: %v", err)
	}
	ovs, err := k.Choose("network", "ovs", nil)
	if err != nil {
		t.Fatal(err)
	}
	if id := k.ID(s.With(ovs)); id != "ovs" {
		t.Errorf("with another network it is %s", id)
	}
	if _, err := k.Complete(stack.Stack{bridge, ovs}); err == nil ||
		!strings.Contains(err.Error(), "two networks, bridge(n=7) and ovs") {
		t.Errorf("a stack of two networks: %v", err)
	}
}

// FuzzParse checks that a parsed stack, written and read again, is the same stack, and that nothing panics.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"bridge", "bridge+nft(n=2)@lxc", "bridge+tunnel:ovs", `bridge(text="a+b")+vxlan(text='@',n=+)`, "network:ovs+ovs+ovs",
		"@", "a+b@c", "bridge(text=\"\\\"+\")",
		"bridge(n= \"+\" )+nft", "bridge +nft", "bridge@netns(n=1)",
	} {
		f.Add(s)
	}
	k := kinds()
	f.Fuzz(func(t *testing.T, written string) {
		s, err := k.Parse(written)
		if err != nil {
			return
		}
		id := k.ID(s)
		again, err := k.Parse(id)
		if err != nil || !again.Equal(s) {
			t.Fatalf("%q, written as %q, is read as %v (%v)", written, id, again, err)
		}
	})
}

// FuzzID checks that the id of each stack is read as that stack.
func FuzzID(f *testing.F) {
	f.Add(byte(0), byte(1), byte(2), byte(1), "7", "a+b")
	f.Add(byte(1), byte(0), byte(1), byte(0), "", `"@(`)
	k := kinds()
	f.Fuzz(func(t *testing.T, network, filter, tunnel, runtime byte, n, text string) {
		var s stack.Stack
		for i, pick := range []byte{network, filter, tunnel, runtime} {
			all := stack.Choices(k[i])
			p := all[int(pick)%len(all)]
			given := map[string]string{}
			for _, param := range p.Params {
				if given[param.Name] = n; param.Name == "text" {
					given[param.Name] = text
				}
				if given[param.Name] == "" { // no value is empty
					delete(given, param.Name)
				}
			}
			c, err := k.Choose(k[i].Describe().Name, p.Name, given)
			if err != nil {
				t.Fatal(err)
			}
			s = append(s, c)
		}
		again, err := k.Parse(k.ID(s))
		if err != nil || !again.Equal(s) {
			t.Fatalf("%v, written as %q, is read as %v (%v)", s, k.ID(s), again, err)
		}
	})
}

func TestRelabel(t *testing.T) {
	for _, tt := range []struct{ id, without, want string }{
		{"nft", "", "x"},
		{"nft(n=1)", "", "x(n=1)"},
		{"nft(n=1)", "n", "x"},
		{"nft(n=1,text=b)", "text", "x(n=1)"},
		{`nft(text="a,n=2)",n=1,z=3)`, "n", `x(text="a,n=2)",z=3)`},
	} {
		if got := stack.Relabel(tt.id, "x", tt.without); got != tt.want {
			t.Errorf("%s without %q: %s, want %s", tt.id, tt.without, got, tt.want)
		}
	}
}

func TestSettings(t *testing.T) {
	for id, want := range map[string][]stack.Setting{
		"bridge":                      nil,
		"bridge(n=2)+nft(n=1)":        nil,
		"bridge+mtu=9000":             {{"mtu", "9000"}},
		"bridge+nft(n=1)@lxc+a=1+b=x": {{"a", "1"}, {"b", "x"}},
		`bridge(text="+mtu=1")+mtu=2`: {{"mtu", "2"}},
	} {
		rest, got := stack.Settings(id)
		if diff := cmp.Diff(want, got); diff != "" || stack.WithSettings(rest, got...) != id {
			t.Errorf("%s: %s with %v (-want +got):\n%s", id, rest, got, diff)
		}
	}
}
