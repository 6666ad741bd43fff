package lab

import (
	"cmp"
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
	"unicode"
	"unicode/utf8"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// The files of a lab's directory.
const (
	lockFile       = "lock"            // its owner holds the lock of it
	entryFile      = "lab.json"        // an [Entry], once the lab is up
	specFile       = "spec.json"       // the [Spec] from which it is built
	experimentFile = "experiment.yaml" // the experiment
	socketFile     = "socket"
	logFile        = "log" // the messages of the owner
)

const (
	// maxName is the longest name of a lab, in bytes.
	maxName = 100
	// halfMade is the age at which a directory without a lock is certainly abandoned: its process was killed while it
	// made or removed the directory.
	halfMade = time.Minute
)

// An Entry is a lab in the registry.
type Entry struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"` // as in cells: "bridge/cross-host/1"
	Stack      string    `json:"stack"`
	Experiment string    `json:"experiment"`
	Placement  string    `json:"placement"`
	Pairs      int       `json:"pairs"`
	PID        int       `json:"pid"` // of its owner
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"`
	// Building is true while the lab is not up yet. Only its name is known then.
	Building bool `json:"building,omitempty"`
}

// A Spec says how to build a lab, together with the text of the experiment.
type Spec struct {
	Lab      string               `json:"lab"`   // its id in the experiment
	Stack    string               `json:"stack"` // the part of the id that names the stack
	Settings []experiment.Setting `json:"settings,omitempty"`
	Time     time.Duration        `json:"time"` // how long it is kept, in ns
}

// Home returns the directory for the labs of a user, inside that of [owned.Runtime]. A runtime directory that belongs
// to another user, as after su, is not used; note then says so.
func Home(uid int, runtimeDir, temp string) (dir, note string) {
	dir, refused := owned.Runtime(uid, runtimeDir, temp)
	dir = filepath.Join(dir, "labs")
	if refused {
		note = fmt.Sprintf("XDG_RUNTIME_DIR %q belongs to another user: your labs are in %q", runtimeDir, dir)
	}
	return dir, note
}

// A Registry holds the labs of a user.
type Registry struct {
	path string
	dir  *owned.Dir // nil if it does not exist yet
}

// OpenRegistry opens the registry in a directory, which the first lab makes. Only the user may have access to this
// directory and the one above it: a directory that another user made, or could replace, is refused. The registry is
// open until the process ends.
func OpenRegistry(path string) (*Registry, error) {
	r := &Registry{path: path}
	if err := r.open(owned.Open); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the registry of labs: %w (hint: set XDG_RUNTIME_DIR to a directory of your own)", err)
	}
	return r, nil
}

// make makes the directory.
func (r *Registry) make() error {
	if err := r.open(owned.Make); err != nil {
		return fmt.Errorf("make the registry of labs: %w (hint: set XDG_RUNTIME_DIR to a directory of your own)", err)
	}
	return nil
}

// open opens the directory, after the one above it.
func (r *Registry) open(open func(string) (*owned.Dir, error)) error {
	if r.dir != nil {
		return nil
	}
	above, err := open(filepath.Dir(r.path))
	if err != nil {
		return err
	}
	_ = above.Close()
	r.dir, err = open(r.path)
	return err
}

// TakenError reports that a lab of this name exists.
type TakenError struct{ Entry }

func (e *TakenError) Error() string {
	if e.Building {
		return fmt.Sprintf("a lab %q is being built already (hint: --name gives this one another name)", e.Name)
	}
	return fmt.Sprintf("a lab %q is already running, since %s (hint: nettoll lab down %s, or --name gives this one "+
		"another name)", e.Name, e.Since.Format(time.TimeOnly), Quote(e.Name))
}

// Quote quotes a word for a shell.
func Quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("+,-./:=@_", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// Name returns the name of a lab of a stack if it is given none: the stack, as far as that can be a name. A path in it
// has hyphens instead of slashes, and its end is cut off if it is too long.
func Name(stack string) string {
	name := strings.ReplaceAll(stack, "/", "-")
	if len(name) > maxName {
		const more = "…"
		end := maxName - len(more)
		for !utf8.RuneStart(name[end]) {
			end--
		}
		name = name[:end] + more
	}
	return name
}

// CheckName returns an error if the name of a lab is not valid.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || strings.ContainsRune(name, '/') ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.HasPrefix(name, ".") ||
		strings.HasPrefix(name, "-") {
		return fmt.Errorf("invalid name %q of a lab (valid: 1 to %d bytes that can be printed, no slash, and neither a dot "+
			"nor a hyphen at the beginning)", name, maxName)
	}
	return nil
}

// Claim makes the directory of a new lab. The caller owns the lock, and passes it on to the lab's owner.
func (r *Registry) Claim(name string) (dir *owned.Dir, lock *os.File, err error) {
	if err := CheckName(name); err != nil {
		return nil, nil, err
	}
	if err := r.make(); err != nil {
		return nil, nil, err
	}
	if _, err := r.Entries(); err != nil { // removes stale entries
		return nil, nil, err
	}
	made := ".new-" + rand.Text()
	if dir, err = r.dir.MakeDir(made); err != nil {
		return nil, nil, fmt.Errorf("register lab %q: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = r.dir.RemoveAll(made)
			_ = dir.Close()
			if lock != nil {
				_ = lock.Close()
			}
			dir, lock = nil, nil
		}
	}()
	if lock, err = dir.File(lockFile, os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600); err != nil {
		return dir, nil, fmt.Errorf("register lab %q: %w", name, err)
	}
	if _, err = process.Lock(lock); err != nil { // nobody else knows it yet
		return dir, lock, err
	}
	// A directory with something in it is not replaced: if two processes want the name, one gets it.
	if err = r.dir.Rename(made, name); err == nil {
		return dir, lock, nil
	}
	if e, _ := r.find(name); e != nil {
		err = &TakenError{*e}
	} else {
		err = fmt.Errorf("register lab %q: %w", name, err)
	}
	return dir, lock, err
}

func (r *Registry) find(name string) (*Entry, error) {
	all, err := r.Entries()
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == name }); i >= 0 {
		return &all[i], nil
	}
	return nil, nil
}

// Entries lists the labs that are up or being built, by name. It removes what killed owners have left behind.
func (r *Registry) Entries() ([]Entry, error) {
	if r.dir == nil {
		return nil, nil
	}
	found, err := fs.ReadDir(r.dir.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var all []Entry
	for _, f := range found {
		gone, err := r.sweep(f.Name())
		if err != nil {
			return nil, err
		}
		if gone || strings.HasPrefix(f.Name(), ".") {
			continue // or it is just being made or removed
		}
		e := Entry{Name: f.Name(), Building: true}
		data, err := r.read(f.Name(), entryFile)
		if err == nil {
			e.Building = false
			err = json.Unmarshal(data, &e)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list labs: lab %q: %w", f.Name(), err)
		}
		e.Name = f.Name()
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// read returns the contents of a file of a lab.
func (r *Registry) read(name, file string) ([]byte, error) {
	dir, err := r.dir.Dir(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Read(file)
}

// sweep removes a lab's directory that has no owner any more, and reports whether it did.
func (r *Registry) sweep(name string) (bool, error) {
	dir, err := r.dir.Dir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the owner of a lab: %w", err)
	}
	defer dir.Close()
	lock, err := dir.File(lockFile, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		info, err := dir.Stat(".")
		if err != nil || time.Since(info.ModTime()) < halfMade {
			return false, nil
		}
		return true, r.discard(name, nil)
	}
	if err != nil {
		return false, fmt.Errorf("look for the owner of a lab: %w", err)
	}
	defer lock.Close()
	if free, err := process.Lock(lock); err != nil || !free {
		return false, err
	}
	return true, r.discard(name, lock)
}

// discard removes the directory of a lab, unless the name now belongs to another lab than the one whose lock is held.
// The name is free at once.
func (r *Registry) discard(name string, lock *os.File) error {
	if lock != nil {
		held, err1 := lock.Stat()
		there, err2 := r.dir.Lstat(filepath.Join(name, lockFile))
		if err1 != nil || err2 != nil || !os.SameFile(held, there) {
			return nil
		}
	}
	away := ".gone-" + rand.Text()
	err := r.dir.Mkdir(away, 0o700)
	if err == nil {
		err = r.dir.Rename(name, filepath.Join(away, "lab"))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove leftovers of a lab: %w", err)
	}
	if err := r.dir.RemoveAll(away); err != nil {
		return fmt.Errorf("remove leftovers of a lab: %w", err)
	}
	return nil
}

// Choose returns the lab with that name; if the name is "", it returns the only one.
func (r *Registry) Choose(name string) (Entry, error) {
	all, err := r.Entries()
	if err != nil {
		return Entry{}, err
	}
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Name
	}
	i := slices.Index(names, name)
	switch {
	case len(all) == 0:
		return Entry{}, errors.New("no lab is running (hint: nettoll lab up --stack NAME starts one)")
	case name == "" && len(all) == 1:
		i = 0
	case name == "":
		return Entry{}, fmt.Errorf("%d labs stand: say which (%s)", len(all), strings.Join(names, ", "))
	case i < 0:
		return Entry{}, fmt.Errorf("no lab %q is running (known: %s)", name, strings.Join(names, ", "))
	}
	if all[i].Building {
		return all[i], fmt.Errorf("lab %q is still being built", all[i].Name)
	}
	return all[i], nil
}

// write writes a value as JSON, whole or not at all.
func write(dir *owned.Dir, name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return dir.Write(name, append(data, '\n'))
}
