package lab

import (
	"context"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/internal/testnet"
)

// An owner that takes its lab down for longer than it may take to answer is waited for, and not killed.
func TestDownOfABusyOwner(t *testing.T) {
	r := registry(t)
	dir, lock, err := r.Claim("a")
	testnet.Skip(t, err)
	defer lock.Close()
	defer dir.Close()
	process := exec.Command("sleep", "60") // which would be killed
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = process.Wait() // that it has ended is enough
		close(ended)
	}()
	defer func() {
		_ = process.Process.Kill()
		<-ended
	}()
	o := &owner{
		name: "a", dir: dir, log: io.Discard, lab: new(control.LiveLab), down: make(chan string, 1),
		ending: make(chan struct{}), gone: make(chan struct{}),
	}
	listener, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go o.serve(ctx, listener)
	go func() {
		<-o.down
		time.Sleep(takedown + time.Second) // what it has to remove takes that long
		close(o.gone)
	}()
	if err := r.Down(t.Context(), Entry{Name: "a", PID: process.Process.Pid}); err != nil {
		t.Error(err)
	}
	select {
	case <-o.gone:
	default:
		t.Error("Down has returned before the lab was gone")
	}
	select {
	case <-ended:
		t.Error("its owner was killed")
	default:
	}
}
