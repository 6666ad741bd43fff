package ovs

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// serve answers the requests at a socket one after another with the given answers. Before each, it sends an echo
// request and a notification of its own.
func serve(t *testing.T, answers ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		dec := json.NewDecoder(c)
		for _, answer := range answers {
			var question struct{ ID int }
			if dec.Decode(&question) != nil {
				return
			}
			_, _ = c.Write([]byte(`{"method":"echo","params":["x"],"id":"e"}{"method":"update","params":[],"id":null}`))
			var echoed struct{ Result []string }
			if dec.Decode(&echoed) != nil || len(echoed.Result) != 1 {
				return
			}
			_, _ = c.Write([]byte(answer))
		}
	}()
	return path
}

func TestControl(t *testing.T) {
	if got, err := Control(serve(t, `{"id":1,"result":"all well","error":null}`), "version"); err != nil ||
		got != "all well" {
		t.Errorf("Control = %q, %v", got, err)
	}
	if _, err := Control(serve(t, `{"id":1,"result":null,"error":"\"x\" is not a valid command"}`), "x"); err == nil ||
		!strings.Contains(err.Error(), "not a valid command") {
		t.Errorf("Control = %v, want what the daemon said", err)
	}
	if _, err := Control(serve(t, `{]`), "x"); err == nil {
		t.Error("what is no answer is taken for one")
	}
	if _, err := Control(filepath.Join(t.TempDir(), "nobody"), "x"); err == nil {
		t.Error("nobody listens, and it is no error")
	}
}

func TestTransact(t *testing.T) {
	path := serve(t, `{"id":1,"result":[{"uuid":["uuid","1"]},{"error":"constraint violation","details":"no such column"}],"error":null}`)
	r, err := dialRPC(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if _, err := r.transact([]any{object{"op": "insert"}}); err == nil ||
		!strings.Contains(err.Error(), "constraint violation: no such column") {
		t.Errorf("transact = %v, want what failed", err)
	}
}

func TestState(t *testing.T) {
	i := Instance{Dir: filepath.Dir(serve(t, ""))}
	if _, err := i.State(); err == nil {
		t.Error("there is no database, and it is no error")
	}
	var port struct {
		Port  optional[int] `json:"ofport"`
		Error optional[string]
	}
	for text, want := range map[string]struct {
		n   int
		err string
	}{
		`{"ofport":3,"error":["set",[]]}`:                {3, ""},
		`{"ofport":["set",[]],"error":"no such device"}`: {0, "no such device"},
		`{"ofport":-1,"error":"could not open"}`:         {-1, "could not open"},
	} {
		port.Port.value, port.Error.value = 0, ""
		if err := json.Unmarshal([]byte(text), &port); err != nil || port.Port.value != want.n ||
			port.Error.value != want.err {
			t.Errorf("%s: port %d, %q, %v", text, port.Port.value, port.Error.value, err)
		}
	}
}
