package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// A Lab is a live lab, as seen by processes other than its owner.
type Lab struct {
	Entry
	registry *Registry
}

// Lab returns a live lab.
func (r *Registry) Lab(e Entry) *Lab { return &Lab{e, r} }

// dial connects to the owner and passes files to it, if the owner belongs to this user.
func (l *Lab) dial(files ...*os.File) (*protocol.Client, error) {
	dir, err := l.registry.dir.Dir(l.Name)
	if err != nil {
		return nil, fmt.Errorf("lab %q: %w", l.Name, err)
	}
	defer dir.Close()
	var conn *net.UnixConn
	err = atSocket(dir, func(at *net.UnixAddr) (err error) {
		conn, err = net.DialUnix("unix", nil, at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask the owner of lab %q: %w", l.Name, err)
	}
	if err = ours(conn); err != nil {
		err = fmt.Errorf("refuse the owner of lab %q: %w", l.Name, err)
	} else if err = process.Hand(conn, files...); err != nil {
		err = fmt.Errorf("lab %q: %w", l.Name, err)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return protocol.Dial(conn, conn, nil), nil
}

// Graph returns the current graph of the lab.
func (l *Lab) Graph(ctx context.Context) (*Graph, error) {
	c, err := l.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var g Graph
	if err := c.Call(ctx, methodGraph, nil, &g); err != nil {
		return nil, fmt.Errorf("lab %q: %w", l.Name, err)
	}
	return &g, nil
}

// Places lists the hosts and containers of the lab, and its underlay.
func (l *Lab) Places(ctx context.Context) (names []string, err error) {
	c, err := l.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return names, c.Call(ctx, methodPlaces, nil, &names)
}

// A Run is a program that runs inside a lab.
type Run struct {
	lab    *Lab
	client *protocol.Client
	ended  chan struct{}
	ran    ran
	err    error
}

// Run starts a program with these standard files. It is killed when this process ends.
func (l *Lab) Run(ctx context.Context, c Command, files [3]*os.File) (*Run, error) {
	client, err := l.dial(files[:]...)
	if err != nil {
		return nil, err
	}
	r := &Run{lab: l, client: client, ended: make(chan struct{})}
	go func() {
		r.err = client.Call(ctx, methodRun, c, &r.ran)
		close(r.ended)
	}()
	return r, nil
}

// Signal sends a signal to the program.
func (r *Run) Signal(s syscall.Signal) {
	go func() { _ = r.client.Call(context.Background(), methodSignal, sent{int(s)}, nil) }() // the program may be ending
}

// Ended returns a channel that is closed when the program has ended.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Wait waits for the end of the program and returns its exit status as a shell reports it.
func (r *Run) Wait() (int, error) {
	<-r.ended
	_ = r.client.Close() // never fails
	switch {
	case errors.Is(r.err, protocol.ErrEnded) || r.ran.Gone:
		return 0, fmt.Errorf("lab %q was taken down", r.lab.Name)
	case r.err != nil:
		return 0, fmt.Errorf("lab %q: %w", r.lab.Name, r.err)
	}
	return r.ran.Exit, nil
}

// ask calls a method of the owner, which has the time [takedown] for it.
func (l *Lab) ask(ctx context.Context, method string) error {
	ctx, cancel := context.WithTimeout(ctx, takedown)
	defer cancel()
	c, err := l.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Call(ctx, method, nil, nil)
}

// Down takes the lab down and returns when nothing of it is left. An owner that does not answer is killed. One that
// does is at work as long as it takes: a daemon of the machine may need many seconds to remove containers.
func (r *Registry) Down(ctx context.Context, e Entry) error {
	l := r.Lab(e)
	var err error
	for working := true; working; {
		if err = l.ask(ctx, methodPlaces); err != nil { // it answers that at once
			break
		}
		if err = l.ask(ctx, methodDown); err == nil {
			return nil
		}
		working = errors.Is(err, context.DeadlineExceeded)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// While a process holds the lock, it is the process that the entry names, so its PID has not been reused.
	if swept, serr := r.sweep(e.Name); serr == nil && !swept {
		if owner, ferr := os.FindProcess(e.PID); ferr == nil {
			_ = owner.Kill() // it may have ended just now
		}
	}
	for limit := time.Now().Add(takedown); ; time.Sleep(10 * time.Millisecond) {
		still, ferr := r.find(e.Name)
		if ferr != nil {
			return ferr
		}
		if still == nil || !still.Since.Equal(e.Since) {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("lab %q: its owner, process %d, does not end: %w", e.Name, e.PID, err)
		}
	}
}
