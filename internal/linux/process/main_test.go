package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/userns"
	"github.com/nettoll/nettoll/internal/testnet"
)

// These tests start the test binary in the roles of a parent, a child and PID 1.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch args := os.Args[2:]; os.Args[1] {
		case "sleep":
			time.Sleep(time.Hour)
		case "exhaust":
			exhaust(args[0])
		case "exhausted":
			survive(args[0])
		case "parent": // starts a child from a goroutine that ends with its thread, prints its PID, and stays
			cmd := exec.Command("/proc/self/exe", "sleep")
			if err := Start(cmd, Options{}); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			fmt.Println(cmd.Process.Pid)
			time.Sleep(time.Hour)
		case "init": // PID 1 of the rest
			if err := Isolate("tested", false); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			status, err := Supervise(args[0], args, os.Environ())
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			os.Exit(status)
		case "linger": // PID 1 of a container that others leave after a second, one of them as a child of PID 1
			if err := Isolate("tested", false); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			if err := exec.Command("sh", "-c", "sleep 1 & exec true").Run(); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			if err := Linger(context.Background(), 300*time.Millisecond, 0); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			fmt.Println("alone")
		case "outer": // starts a child in a user namespace, prints its PID if it only sleeps, and waits for it
			cmd := exec.Command("/proc/self/exe", args...)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := Start(cmd, Options{User: true}); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			if args[0] == "sleep" {
				fmt.Println(cmd.Process.Pid)
			}
			_ = cmd.Wait()
			os.Exit(ExitStatus(cmd.ProcessState))
		case "user-root": // prints its user, makes the namespaces of a host and writes a file
			missing, err := userns.Missing()
			if err != nil {
				fmt.Println(err)
			}
			groups, _ := os.ReadFile("/proc/self/setgroups")
			fmt.Printf("uid %d, gid %d, setgroups %s, inside %v, missing %q\n", os.Getuid(), os.Getgid(),
				strings.TrimSpace(string(groups)), userns.Inside(), missing)
			if err := os.WriteFile(args[0], nil, 0o600); err != nil {
				fmt.Println(err)
			}
			cmd := exec.Command("/proc/self/exe", "init", "/bin/true")
			cmd.Stdout = os.Stdout
			if err := Start(cmd, Options{Namespaces: true}); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			_ = cmd.Wait()
			os.Exit(ExitStatus(cmd.ProcessState))
		case "limited": // forbids user namespaces below its own, and tries to make one
			if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
				fmt.Println(err)
			}
			if err := Start(exec.Command("/proc/self/exe", "sleep"), Options{User: true}); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		case "threads": // starts threads all the time, limits all of them to a CPU, and keeps them from then on
			var stay atomic.Bool
			for range 4 {
				go breed(&stay)
			}
			time.Sleep(10 * time.Millisecond)
			cpu, err := strconv.Atoi(args[0])
			if err == nil {
				err = SetOwnAffinity([]int{cpu})
			}
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			stay.Store(true)
			fmt.Println("limited")
			time.Sleep(time.Hour)
		case "term": // exits with 7 on SIGTERM
			c := make(chan os.Signal, 1)
			signal.Notify(c, syscall.SIGTERM)
			fmt.Println("ready")
			<-c
			os.Exit(7)
		case "first-thread":
			fmt.Println(firstThread())
		case "files":
			files, err := Inherited(fileArgs(args))
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			for name, f := range files {
				data := make([]byte, 10)
				n, _ := f.ReadAt(data, 0)
				fmt.Printf("%s %s\n", name, data[:n])
			}
			// A child of a child gets none.
			out, _ := exec.Command("sh", "-c",
				"for i in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$i ] && echo $i; done").Output()
			fmt.Println(strings.Join(strings.Fields(string(out)), " "))
		default:
			testnet.Main(m)
		}
		os.Exit(0)
	}
	testnet.Main(m)
}

// breed starts a thread that does the same, and ends with its own, unless both are to stay.
func breed(stay *atomic.Bool) {
	runtime.LockOSThread() // a thread ends with its goroutine, and never runs another one
	time.Sleep(100 * time.Microsecond)
	if stay.Load() {
		select {}
	}
	go breed(stay)
}

func fileArgs(args []string) (values []string) {
	for i := 0; i+1 < len(args); i += 2 {
		values = append(values, args[i+1])
	}
	return values
}
