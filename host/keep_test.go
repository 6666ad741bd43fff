package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
)

// mark is a step that leaves a file, and fails as its fields say.
type mark struct {
	Name    string `json:"name"`
	Until   host.Lifetime
	Fails   bool `json:"fails,omitempty"`
	Remains bool `json:"remains,omitempty"`

	log *[]string
}

func (mark) Kind() string              { return "mark" }
func (m mark) String() string          { return "mark " + m.Name }
func (m mark) Outlives() host.Lifetime { return m.Until }

func (m mark) Verify(k *host.Kernel) error {
	var kept map[string]string
	if ok, err := k.Kept(&kept); err != nil || !ok || kept["found"] != m.Name {
		return errors.Join(err, errors.New("it was kept otherwise"))
	}
	return nil
}

func (m mark) Apply(_ context.Context, k *host.Kernel) error {
	*m.log = append(*m.log, "apply "+m.Name)
	if err := k.Keep(map[string]string{"found": m.Name}); err != nil {
		return err
	}
	*m.log = append(*m.log, "make "+m.Name)
	if m.Fails {
		return errors.New("no")
	}
	return nil
}

func (m mark) Remove(_ context.Context, k *host.Kernel) error {
	var kept map[string]string
	ok, err := k.Kept(&kept)
	*m.log = append(*m.log, "remove "+m.Name)
	if err != nil || !ok || kept["found"] != m.Name {
		return errors.Join(err, errors.New("it was kept otherwise"))
	}
	if m.Remains {
		return errors.New("it stays")
	}
	return nil
}

// A step has what it has kept when it is verified.
func TestKeptInVerify(t *testing.T) {
	k, _ := kernel(t, nil)
	var s host.Stack
	steps := []host.Step{mark{Name: "one", log: new([]string)}, mark{Name: "two", log: new([]string)}}
	if err := s.Apply(t.Context(), k, host.Plan{Steps: steps}); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), k); err != nil {
		t.Error(err)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
}

// logged is a journal that logs its notes, or fails.
type logged struct {
	log   *[]string
	fails string
}

func (l logged) Write(n host.Note) error {
	what := "note kept"
	switch {
	case n.Step != nil:
		what = "note step"
	case n.Removed:
		what = "note removed"
	}
	if what == l.fails {
		return errors.New("the disk is full")
	}
	*l.log = append(*l.log, what)
	return nil
}

// A step that outlives its host is noted before it is applied. It is not applied if it cannot be noted.
func TestJournalComesFirst(t *testing.T) {
	m := testnet.New(t)
	for _, c := range []struct {
		name string
		step mark
		full string // a note that cannot be written
		none bool   // without a journal
		want string
		err  string
	}{
		{"ends with its host", mark{Name: "a"}, "", true, "apply a, make a, remove a", ""},
		{
			"stays",
			mark{Name: "a", Until: host.UntilBoot},
			"", false,
			"note step, apply a, note kept, make a, remove a, note removed", "",
		},
		{
			"fails",
			mark{Name: "a", Until: host.UntilRemoved, Fails: true},
			"", false,
			"note step, apply a, note kept, make a, remove a, note removed", "no",
		},
		{"cannot be removed", mark{
			Name: "a", Until: host.UntilBoot, Remains: true,
		}, "", false, "note step, apply a, note kept, make a, remove a", "it stays"},
		{"no journal", mark{Name: "a", Until: host.UntilBoot}, "", true, "", "no journal was given"},
		{"cannot be noted", mark{Name: "a", Until: host.UntilBoot}, "note step", false, "", "the disk is full"},
		{
			"what it keeps cannot be noted",
			mark{Name: "a", Until: host.UntilBoot},
			"note kept", false,
			"note step, apply a, remove a", "the disk is full",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log []string
			c.step.log = &log
			config := host.KernelConfig{Dir: m.Dir, Run: t.TempDir(), Journal: logged{&log, c.full}}
			if c.none {
				config.Journal = nil
			}
			var k *host.Kernel
			if err := m.Do(func() (err error) {
				k, err = host.NewKernel(config)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			var s host.Stack
			err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{c.step}})
			if err == nil {
				err = s.Undo(t.Context(), k)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if got := strings.Join(log, ", "); got != c.want {
				t.Errorf("it went %s\nwant    %s", got, c.want)
			}
		})
	}
}

// A stack is the same after it is written and read again. Unknown kinds and fields are refused.
func TestStackFromData(t *testing.T) {
	k, _ := kernel(t, nil)
	var s host.Stack
	testnet.Skip(t, s.Apply(t.Context(), k, lab()))
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := host.Decoder{Kinds: host.Steps()}.Stack(data)
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), string(second)); diff != "" || again.Len() != s.Len() {
		t.Errorf("%d steps, want %d (-first +second):\n%s", again.Len(), s.Len(), diff)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ text, want string }{
		{"{}", "decode applied steps"},
		{`[{"number":1,"step":{"kind":"moon"}}]`, `unknown kind "moon"`},
		{`[{"number":1,"step":{"kind":"namespace","name":"c"},"more":1}]`, `unknown field "more"`},
	} {
		if _, err := (host.Decoder{Kinds: host.Steps()}).Stack([]byte(c.text)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}
