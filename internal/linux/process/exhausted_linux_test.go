package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

// crowded is a user without any other processes.
const crowded = 64_001

// exhaust reaches a limit and prints the error, or dies of it.
func exhaust(what string) {
	set := func(resource int, most uint64) {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	switch what {
	case "processes":
		set(unix.RLIMIT_NPROC, 30)
		for {
			err := Start(exec.Command("sleep", "60"), Options{})
			if _, ok := errors.AsType[*ExhaustedError](err); ok {
				fmt.Println(err)
				os.Exit(0)
			}
			if err != nil {
				fmt.Println("another error:", err)
				os.Exit(1)
			}
		}
	case "files":
		set(unix.RLIMIT_NOFILE, 10)
		for kept := []*os.File{}; ; {
			if f, err := os.Open("/"); err == nil {
				kept = append(kept, f)
				continue
			}
			fmt.Println(Start(exec.Command("sleep", "60"), Options{}))
			runtime.KeepAlive(kept)
			os.Exit(0)
		}
	case "threads":
		set(unix.RLIMIT_NPROC, 30)
		for {
			go func() {
				runtime.LockOSThread()
				time.Sleep(time.Minute)
			}()
			time.Sleep(time.Millisecond)
		}
	case "address space":
		set(unix.RLIMIT_AS, 2<<30)
		for kept := [][]byte{}; ; {
			kept = append(kept, make([]byte, 256<<20))
			runtime.KeepAlive(kept)
		}
	}
}

// survive is the parent of a process that dies of a limit, which applies to both.
func survive(what string) {
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 2 << 30, Max: 2 << 30}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	cmd := exec.Command("/proc/self/exe", "exhaust", what)
	var tail Tail
	cmd.Stderr = &tail
	_ = cmd.Run() // the state has more information
	fmt.Println(tail.After(cmd.ProcessState.String()))
	os.Exit(0)
}

// A limit on processes, threads, open files or memory is named, both if it causes an error and if it ends a child.
func TestExhausted(t *testing.T) {
	testnet.Root(t)
	for _, c := range []struct {
		what string
		want []string
	}{
		{"processes", []string{"resource temporarily unavailable: the limit of processes and threads is reached: ulimit " +
			"-u (RLIMIT_NPROC) is 30, and ", "of this user run (hint: raise it with ulimit -u"}},
		{"files", []string{
			"too many open files: ulimit -n (RLIMIT_NOFILE) is 10 (hint: raise it, or measure fewer pairs",
		}},
		{"threads", []string{
			"the limit of processes and threads is reached", "ulimit -u", ": runtime", // pthread_create with cgo
		}},
		{"address space", []string{
			"out of memory: ulimit -v (RLIMIT_AS) is 2048 MiB (hint: ulimit -v unlimited", ": runtime: ",
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.what == "address space" {
				testnet.NotInRace(t, "it takes more of the address space than is left")
			}
			cmd := self("exhaust", c.what)
			if c.what == "address space" { // its parent has the limit, too, like that of a shell
				cmd = self("exhausted", c.what)
			}
			open(t, t.TempDir())
			var tail Tail
			cmd.Stdout, cmd.Stderr = &tail, &tail
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: crowded, Gid: crowded}}
			_ = cmd.Run() // the state has more information
			said := tail.After(cmd.ProcessState.String())
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("it says %q, want %q", said, want)
				}
			}
			if strings.Contains(said, "goroutine") || strings.Contains(said, "another error") {
				t.Errorf("it says %q", said)
			}
		})
	}
}
