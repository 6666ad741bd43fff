package cli

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The process inside gets an interrupt only if it has not had it. The second one kills it.
func TestPass(t *testing.T) {
	const itself, terminated, killed = "exit status 3", "signal: terminated", "signal: killed"
	for _, tt := range []struct {
		name    string
		signals []os.Signal
		known   bool // the process inside got the first one directly
		want    os.Signal
		ended   string
	}{
		{"one that only the outside had", []os.Signal{syscall.SIGTERM}, false, nil, terminated},
		{"one that both had", []os.Signal{os.Interrupt}, true, nil, itself},
		{"two", []os.Signal{os.Interrupt, syscall.SIGTERM}, true, syscall.SIGTERM, killed},
		{"two that only the outside had", []os.Signal{os.Interrupt, os.Interrupt}, false, os.Interrupt, killed},
		{"none", nil, false, nil, itself},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := "exec sleep 10" // much longer than heardLimit
			if tt.ended == itself {
				script = "sleep 0.4; exit 3" // longer than heardLimit
			}
			cmd := exec.Command("sh", "-c", script)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended, known := make(chan struct{}), make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(ended)
			}()
			if tt.known {
				close(known)
			}
			signals := make(chan os.Signal, len(tt.signals))
			for _, s := range tt.signals {
				signals <- s
			}
			if got := pass(cmd.Process, signals, known, ended); got != tt.want {
				t.Errorf("second signal %v, want %v", got, tt.want)
			}
			if diff := cmp.Diff(tt.ended, cmd.ProcessState.String()); diff != "" {
				t.Errorf("it ended (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInsideArguments(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		want   []string
		inside bool
		err    string
	}{
		{"none", nil, nil, false, ""},
		{"a command", []string{"run", "--time", "3s"}, []string{"run", "--time", "3s"}, false, ""},
		{"inside, by hand", []string{"user-namespace", "run", "--file", "x"}, []string{"run", "--file", "x"}, true, ""},
		{"inside", []string{"user-namespace"}, nil, true, ""},
		{
			"a file that is none",
			[]string{"user-namespace", "--file", "heard=x", "run"},
			nil, false,
			`invalid inherited file "heard=x" (valid: a number from 3 after the last '=')`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, args, err := insideArguments(tt.args)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.err || (in != nil) != tt.inside {
				t.Errorf("inside %v, error %q; want %v, %q", in != nil, text, tt.inside, tt.err)
			}
			if diff := cmp.Diff(tt.want, args); diff != "" && len(args)+len(tt.want) > 0 {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			in.interrupted() // without anyone to tell, it does no harm
		})
	}
}

// The process outside sees at once that the process inside was interrupted.
func TestHeard(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	(&inner{heard: w}).interrupted()
	_ = w.Close()
	if err := r.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 2)); n != 1 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
