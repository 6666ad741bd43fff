package procfs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// kernelThread is the flag of kernel threads among the flags of a process (PF_KTHREAD, include/linux/sched.h).
const kernelThread = 0x00200000

// A Program is a process as /proc/PID/stat shows it.
type Program struct {
	PID, Parent int
	Session     int     // 0: one of a PID namespace around this one, as of a program that has entered it
	Name        string  // its first 15 bytes; what is not printable is escaped
	CPU         float64 // s: its own, and that of the children it has reaped
	Started     uint64  // in ticks since boot
	Kernel      bool    // a thread of the kernel
	State       string  // of its first thread: a letter, proc_pid_stat(5)
	Ended       bool    // it has ended, and its parent has not reaped it yet
	Stopped     string  // what has stopped it: "SIGSTOP" (or another stop signal) or "a debugger"; "" if it is not stopped
}

// BySignal is what has stopped a program that got a signal to do so.
const BySignal = "SIGSTOP"

// ReadPrograms returns the visible processes, by PID.
func ReadPrograms() (map[int]Program, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make(map[int]Program, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseProgram(pid, text); ok {
			all[pid] = p
		}
	}
	return all, nil
}

// Children returns the child processes of a process, by PID; none if it is gone. A kernel without
// /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN) has all processes read.
func Children(pid int) (list []int, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				list = append(list, child)
			}
		}
	}
	if len(files) > 0 {
		return list, nil
	}
	all, err := ReadPrograms()
	for child, p := range all {
		if p.Parent == pid {
			list = append(list, child)
		}
	}
	return list, err
}

// Started returns when a process was started, in ticks since boot. The pair of PID and start time is unique. If the
// process is gone, or has ended and was not reaped yet, the error is [fs.ErrNotExist].
func Started(pid int) (uint64, error) {
	p, err := program(pid)
	if err == nil && p.Ended {
		err = fmt.Errorf("read when process %d was started: it has ended: %w", pid, fs.ErrNotExist)
	}
	return p.Started, err
}

// Stopped returns what has stopped a process, as [Program] has it: "" if nothing has, or if the process is gone.
func Stopped(pid int) string {
	p, _ := program(pid)
	return p.Stopped
}

// Doing says what a process does, for an error message: "process 12 (NAME) is in state S, in the kernel at FUNCTION".
// The state is that of its first thread, proc_pid_stat(5), and the function that of proc_pid_wchan(5). That is left out
// if the thread does not wait or the kernel does not tell.
func Doing(pid int) string {
	p, err := program(pid)
	if err != nil {
		return "its process cannot be seen"
	}
	what := fmt.Sprintf("process %d (%s) is in state %s", pid, p.Name, p.State)
	if at, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid)); err == nil && len(at) > 0 && string(at) != "0" {
		what += ", in the kernel at " + printable(string(at))
	}
	return what
}

// StartedChild is like [Started], for a child process that was not reaped yet. It may have ended.
func StartedChild(pid int) (uint64, error) {
	p, err := program(pid)
	return p.Started, err
}

func program(pid int) (Program, error) {
	path := filepath.Join("/proc", strconv.Itoa(pid), "stat")
	text, err := os.ReadFile(path)
	if errors.Is(err, syscall.ESRCH) { // it ended while it was read
		err = fs.ErrNotExist
	}
	if err != nil {
		return Program{}, fmt.Errorf("read when process %d was started: %w", pid, err)
	}
	p, ok := parseProgram(pid, text)
	if !ok {
		return Program{}, fmt.Errorf("read when process %d was started: unexpected text %.60q in %s", pid, text, path)
	}
	return p, nil
}

// Proportional returns the memory of a process in bytes. A page that n processes share counts as an nth (PSS,
// proc_pid_smaps(5)).
func Proportional(pid int) (int64, error) {
	path := filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	n, ok := parseProportional(string(text))
	if !ok {
		return 0, fmt.Errorf("read the memory of process %d: unexpected text %.60q in %s", pid, text, path)
	}
	return n, nil
}

// parseProportional reads the line "Pss: 12 kB".
func parseProportional(text string) (int64, bool) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Pss:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err == nil && n >= 0
		}
	}
	return 0, false
}

// parseProgram reads PID (NAME) STATE PPID …, proc_pid_stat(5). The name may contain any character.
func parseProgram(pid int, text []byte) (Program, bool) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Program{}, false
	}
	fields := strings.Fields(string(text[end+1:])) // from the third field on
	const ppid, session, flags, utime, cstime, started = 4 - 3, 6 - 3, 9 - 3, 14 - 3, 17 - 3, 22 - 3
	if len(fields) <= started {
		return Program{}, false
	}
	p := Program{PID: pid, Name: printable(string(text[open+1 : end])), State: printable(fields[0])}
	switch fields[0] {
	case "T": // also by SIGTSTP, SIGTTIN or SIGTTOU; proc_pid_stat(5) does not show which
		p.Stopped = BySignal
	case "t":
		p.Stopped = "a debugger"
	case "Z", "X":
		p.Ended = true
	}
	p.Parent, _ = strconv.Atoi(fields[ppid])
	p.Session, _ = strconv.Atoi(fields[session])
	bits, _ := strconv.ParseUint(fields[flags], 10, 64)
	p.Kernel = bits&kernelThread != 0
	p.Started, _ = strconv.ParseUint(fields[started], 10, 64)
	for _, f := range fields[utime : cstime+1] { // utime, stime, cutime, cstime
		ticks, _ := strconv.ParseUint(f, 10, 64)
		p.CPU += float64(ticks) * tick
	}
	return p, true
}

// printable escapes a name with characters that a terminal may act on. A process chooses its own name (PR_SET_NAME).
func printable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// Family returns a process, its descendants and its ancestors.
func Family(all map[int]Program, pid int) map[int]bool {
	family := map[int]bool{}
	for at := pid; at > 0 && !family[at]; at = all[at].Parent {
		family[at] = true
	}
	for p := range all {
		var path []int
		at := p
		for at > 0 && at != pid && len(path) <= len(all) {
			path = append(path, at)
			at = all[at].Parent
		}
		if at == pid {
			for _, one := range path {
				family[one] = true
			}
		}
	}
	return family
}

// A User is a program, by name, with the number of CPUs that it has used.
type User struct {
	Name string
	CPUs float64
}

// Users returns the programs outside a family that have used CPUs between two readings, which are seconds apart,
// largest first. It leaves out kernel threads, because it is unknown for whom they worked.
func Users(before, after map[int]Program, family map[int]bool, seconds float64) []User {
	used := map[string]float64{}
	inherited := map[int]float64{} // by the process that reaped them: what ended children had used before
	for pid, b := range before {
		if p, lives := after[pid]; lives && p.Started == b.Started {
			continue
		}
		at := b.Parent
		for at > 0 && after[at].PID == 0 {
			at = before[at].Parent
		}
		inherited[at] += b.CPU
	}
	for pid, p := range after {
		if p.Kernel || family[pid] {
			continue
		}
		was := 0.0
		if b, known := before[pid]; known && b.Started == p.Started {
			was = b.CPU + inherited[pid]
		}
		if d := p.CPU - was; d > 0 {
			used[p.Name] += d / seconds
		}
	}
	var list []User
	for name, cpus := range used {
		list = append(list, User{name, cpus})
	}
	slices.SortFunc(list, func(a, b User) int { return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.Name, b.Name)) })
	return list
}

// A Run is a measuring process of nettoll.
type Run struct {
	Program
	Command string // its command line
}

// runName is the name of the process of a run, whatever its file is called.
const runName = "nettoll"

// IsRun says whether a command line of nettoll, without the name of the program, measures.
func IsRun(args []string) bool {
	i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	return i >= 0 && (args[i] == "run" || args[i] == "study")
}

// NameRun gives this process the name by which [Runs] of other processes recognizes it: its file may have another one.
// Linux names the first thread, whichever thread writes (proc_pid_comm(5)), and a process is listed by that one's name.
func NameRun() error {
	if err := os.WriteFile("/proc/self/comm", []byte(runName), 0); err != nil {
		return fmt.Errorf("name this process %q: %w", runName, err)
	}
	return nil
}

// Runs returns the runs of nettoll among programs outside a family, in the order of their start. There is no file that
// one user could lock against another, so a run is recognized by its name ([NameRun]) and its command.
func Runs(all map[int]Program, family map[int]bool) []Run {
	var list []Run
	for pid, p := range all {
		if family[pid] || !strings.HasPrefix(p.Name, runName) {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		if IsRun(args[1:]) {
			list = append(list, Run{p, strings.Join(args, " ")})
		}
	}
	slices.SortFunc(list, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.PID, b.PID))
	})
	return list
}
