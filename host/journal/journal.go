package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

const (
	// suffix is the end of the names of journals, and unfinished the beginning of the names of incomplete files.
	suffix     = ".jsonl"
	unfinished = ".new-"
	// halfMade is the age at which an unfinished file is certainly abandoned, because its process was killed.
	halfMade = time.Minute
	// ending is how long to wait for the agents of a killed run.
	ending = 2 * time.Second
)

// FilePrefix is the beginning of the name of an inherited journal. The lab follows: see [Inherited].
const FilePrefix = "journal:"

// A Run is the process of a run.
type Run struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // in ticks since boot
	Boot    string `json:"boot"`    // of this boot: /proc/sys/kernel/random/boot_id
	PIDs    string `json:"pids"`    // the PID namespace of PID
	Net     string `json:"net"`     // the network namespace that counts as the machine's
}

// self returns the run of this process.
func self() (Run, error) {
	r := Run{PID: os.Getpid()}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return r, fmt.Errorf("read the boot id: %w", err)
	}
	r.Boot = strings.TrimSpace(string(boot))
	if r.PIDs, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		return r, err
	}
	if r.Net, err = os.Readlink("/proc/thread-self/ns/net"); err != nil {
		return r, err
	}
	r.Started, err = procfs.Started(r.PID)
	return r, err
}

// left returns why this process does not touch the run: it lives, or cannot be judged from here. "" means that it is
// dead.
func (r Run) left(here Run) string {
	switch {
	case r.Boot != here.Boot:
		return ""
	case r.PIDs != here.PIDs:
		return "its process is in another PID namespace: clean up from there"
	case r.Net != here.Net:
		return "it was started in another network namespace: clean up from there"
	}
	started, err := procfs.Started(r.PID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && started != r.Started {
		return ""
	}
	return "its run is still active"
}

// line is a line of a journal.
type line struct {
	Run *Run   `json:"run,omitempty"`
	Lab string `json:"lab,omitempty"`
	host.Note
}

// write appends a whole line at once. An incomplete line before it does not damage it.
func write(f *os.File, l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = f.Write(slices.Concat([]byte("\n"), data, []byte("\n")))
	return err
}

// lines writes the notes of one lab.
type lines struct {
	file *os.File
	lab  string
}

func (l lines) Write(n host.Note) error { return write(l.file, line{Lab: l.lab, Note: n}) }

// Inherited returns the journal among the inherited files of an agent; nil if there is none.
func Inherited(files map[string]*os.File) host.Journal {
	for name, f := range files {
		if lab, ok := strings.CutPrefix(name, FilePrefix); ok {
			return lines{f, lab}
		}
	}
	return nil
}

// content is the content of a journal: the run, and the last state of each step, in order.
type content struct {
	run   *Run
	steps []step
}

// step is the last state of a step.
type step struct {
	lab string
	host.Note
}

func read(data []byte) content {
	var c content
	at := map[string]int{}
	for text := range bytes.Lines(data) {
		var l line
		if json.Unmarshal(text, &l) != nil {
			continue // an incomplete line
		}
		i, known := at[l.ID]
		switch {
		case l.Run != nil && c.run == nil:
			c.run = l.Run
		case l.Step != nil && !known:
			at[l.ID] = len(c.steps)
			c.steps = append(c.steps, step{l.Lab, l.Note})
		case !known:
		case l.Kept != nil:
			c.steps[i].Kept = l.Kept
		case l.Removed:
			c.steps[i].Removed = true
		}
	}
	c.steps = slices.DeleteFunc(c.steps, func(s step) bool { return s.Removed })
	return c
}

// A Place is a directory with journals, and the kinds of steps that they can contain.
type Place struct {
	// Dir is a directory that only this user can access (package owned). The first journal makes it.
	Dir string
	// Steps are the kinds of steps, see [host.Decoder].
	Steps map[string]func() host.Step
}

// A Journal is the journal of this process's run.
type Journal struct {
	place Place
	dir   *owned.Dir
	name  string
	file  *os.File
}

// Begin begins the journal of this process. Before that, it removes what journals of dead runs name: otherwise this run
// would find things as the dead runs left them.
func (p Place) Begin(ctx context.Context) (_ *Journal, err error) {
	if p.Dir == "" {
		return nil, errors.New("begin a journal: no directory was given")
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("begin the journal: %w", err)
		}
	}()
	above, err := owned.Make(filepath.Dir(p.Dir))
	if err != nil {
		return nil, err
	}
	_ = above.Close()
	j := &Journal{place: p}
	if j.dir, err = owned.Make(p.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = j.dir.Close()
		}
	}()
	results, err := p.Clean(ctx)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		return nil, err
	}
	run, err := self()
	if err != nil {
		return nil, err
	}
	j.name = fmt.Sprintf("%d-%s%s", run.PID, rand.Text(), suffix)
	made := unfinished + j.name
	if j.file, err = j.dir.File(made, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	if _, err = process.Lock(j.file); err == nil { // no other process knows it yet
		if err = write(j.file, line{Run: &run}); err == nil {
			err = j.dir.Rename(made, j.name)
		}
	}
	if err != nil {
		_ = j.dir.Remove(made)
		_ = j.file.Close()
		return nil, err
	}
	return j, nil
}

// File returns the file for agents of a lab. They inherit it under the name [FilePrefix] plus the lab. The journal
// still owns it.
func (j *Journal) File() *os.File { return j.file }

// Run identifies the run of this journal, among all runs of the machine.
func (j *Journal) Run() string { return strings.TrimSuffix(j.name, suffix) }

// Lab returns the journal of one lab, for steps that this process applies.
func (j *Journal) Lab(lab string) host.Journal { return lines{j.file, lab} }

// Recover removes what is left of a lab whose hosts are gone: what they could not return themselves.
func (j *Journal) Recover(ctx context.Context, lab string) error {
	data, err := j.dir.Read(j.name)
	if err != nil {
		return fmt.Errorf("read the journal of this run: %w", err)
	}
	var errs []error
	for _, s := range slices.Backward(read(data).steps) {
		if s.lab == lab {
			_, err := j.place.remove(ctx, s, j.file, false)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close ends the journal. It removes the file if nothing is left of what it names. Otherwise the file stays for
// [Place.Clean], and the error lists what is left.
func (j *Journal) Close() error {
	defer func() {
		_ = j.file.Close()
		_ = j.dir.Close()
	}()
	data, err := j.dir.Read(j.name)
	if err != nil {
		return fmt.Errorf("end the journal of this run: %w", err)
	}
	c := read(data)
	if len(c.steps) == 0 {
		return j.dir.Remove(j.name)
	}
	var left []string
	for _, s := range c.steps {
		left = append(left, j.place.text(s))
	}
	return fmt.Errorf("not returned: %s (hint: run nettoll clean)", strings.Join(left, "; "))
}

// text describes a step in plain words.
func (p Place) text(s step) string {
	one, err := host.Decoder{Kinds: p.Steps}.Step(s.Step)
	if err != nil {
		return string(s.Step)
	}
	return one.String()
}

// remove removes what a step has made, using the journal, and notes that in the file. It returns the text of the step.
// After another boot, only what is on disk can be left.
func (p Place) remove(ctx context.Context, s step, file *os.File, rebooted bool) (string, error) {
	text := p.text(s)
	explain := func(err error) error { return fmt.Errorf("remove %q: %w", text, err) }
	notes := lines{file, s.lab}
	one, err := host.Decoder{Kinds: p.Steps}.Step(s.Step)
	if err != nil {
		return text, explain(err)
	}
	if o, ok := one.(host.Outliving); rebooted && ok && o.Outlives() == host.UntilBoot {
		return text, notes.Write(host.Note{ID: s.ID, Removed: true})
	}
	machine, err := netns.Current()
	if err != nil {
		return text, explain(err)
	}
	defer machine.Close()
	root, err := os.Open("/")
	if err != nil {
		return text, explain(err)
	}
	defer root.Close()
	// The namespaces of its host are gone: namespaces with the same names on this machine belong to somebody else.
	k, err := host.NewKernel(host.KernelConfig{
		Dir: filepath.Join(p.Dir, "none"), Run: filepath.Join(p.Dir, "none"), Journal: notes,
		Files: map[string]*os.File{
			"netns:" + strings.TrimPrefix(host.Machine, "@"): machine, host.OutsidePrefix: root,
		},
	})
	if err != nil {
		return text, explain(err)
	}
	defer k.Close()
	stack, err := host.Decoder{Kinds: p.Steps}.Restore(s.Note)
	if err == nil {
		err = stack.Undo(ctx, k)
	}
	if err != nil {
		return text, explain(err)
	}
	return text, nil
}
