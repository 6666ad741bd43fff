package lab

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// The files of a lab's directory.
const (
	lockFile       = "lock"            // its owner holds the lock of it
	entryFile      = "lab.json"        // an [Entry], once the lab stands
	specFile       = "spec.json"       // the [Spec] it is built from
	experimentFile = "experiment.yaml" // the experiment
	socketFile     = "socket"
	logFile        = "log" // what the owner has to say
)

const (
	// maxName is the longest name of a lab, in bytes.
	maxName = 100
	// halfMade is how old a directory without a lock is that somebody was killed over while it was made or removed.
	halfMade = time.Minute
)

// An Entry is a lab as the registry knows it.
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
	// Building says that it does not stand yet; then only its name is known.
	Building bool `json:"building,omitempty"`
}

// A Spec is what a lab is built from, besides the text of the experiment.
type Spec struct {
	Lab      string               `json:"lab"`   // its id in the experiment
	Stack    string               `json:"stack"` // the part of the id that says which
	Settings []experiment.Setting `json:"settings,omitempty"`
	Time     time.Duration        `json:"time"` // how long it stands, in ns
}

// Home is the directory of the labs of a user: below $XDG_RUNTIME_DIR, else where that usually is, else below temp.
func Home(uid int, runtimeDir, temp string) string {
	usual := filepath.Join("/run/user", strconv.Itoa(uid))
	info, err := os.Stat(usual)
	switch {
	case runtimeDir != "":
		return filepath.Join(runtimeDir, "nettoll", "labs")
	case uid == 0:
		return "/run/nettoll/labs"
	case err == nil && info.IsDir():
		return filepath.Join(usual, "nettoll", "labs")
	}
	return filepath.Join(temp, "nettoll-"+strconv.Itoa(uid), "labs")
}

// A Registry is the labs of a user.
type Registry struct{ dir string }

// OpenRegistry opens the registry in a directory, which the first lab makes. It and the one above are the user's alone.
func OpenRegistry(dir string) (*Registry, error) {
	for _, d := range []string{filepath.Dir(dir), dir} {
		info, err := os.Lstat(d)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%q is no directory", d)
		}
		if err == nil {
			err = os.Chmod(d, 0o700) // only its owner may
		}
		if err != nil {
			return nil, fmt.Errorf("open the registry of labs: %w (hint: somebody else may have made it; set XDG_RUNTIME_DIR to a directory of your own)", err)
		}
	}
	return &Registry{dir}, nil
}

// make makes the directory.
func (r *Registry) make() error {
	above := filepath.Dir(r.dir)
	err := os.MkdirAll(filepath.Dir(above), 0o755)
	for _, d := range []string{above, r.dir} {
		if err == nil {
			if err = os.Mkdir(d, 0o700); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		}
	}
	if err == nil {
		_, err = OpenRegistry(r.dir) // somebody may have been faster
	}
	if err != nil {
		return fmt.Errorf("make the registry of labs: %w", err)
	}
	return nil
}

// TakenError says that there is a lab of this name.
type TakenError struct{ Entry }

func (e *TakenError) Error() string {
	if e.Building {
		return fmt.Sprintf("a lab %q is being built already (hint: --name gives this one another name)", e.Name)
	}
	return fmt.Sprintf("a lab %q stands already, since %s (hint: nettoll lab down %s, or --name gives this one another name)",
		e.Name, e.Since.Format(time.TimeOnly), Quote(e.Name))
}

// Quote writes a word as a shell takes it.
func Quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("+,-./:=@_", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// CheckName says what is wrong with the name of a lab.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || strings.ContainsAny(name, "/\x00\n") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
		return fmt.Errorf("%q is no name of a lab (want 1 to %d bytes, no slash, and neither a dot nor a hyphen at the beginning)", name, maxName)
	}
	return nil
}

// Claim makes the directory of a new lab. The lock is the caller's, and the owner's to whom it hands it on.
func (r *Registry) Claim(name string) (dir string, lock *os.File, err error) {
	if err := CheckName(name); err != nil {
		return "", nil, err
	}
	if err := r.make(); err != nil {
		return "", nil, err
	}
	if _, err := r.Entries(); err != nil { // removes what is stale
		return "", nil, err
	}
	made, err := os.MkdirTemp(r.dir, ".new-")
	if err != nil {
		return "", nil, fmt.Errorf("register lab %q: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(made)
			if lock != nil {
				_ = lock.Close()
			}
			lock = nil
		}
	}()
	if lock, err = os.OpenFile(filepath.Join(made, lockFile), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600); err != nil {
		return "", nil, fmt.Errorf("register lab %q: %w", name, err)
	}
	if _, err = process.Lock(lock); err != nil { // nobody else knows it yet
		return "", nil, err
	}
	dir = filepath.Join(r.dir, name)
	// A directory with something in it is not replaced: of two who want the name one gets it.
	if err = os.Rename(made, dir); err == nil {
		return dir, lock, nil
	}
	if e, _ := r.find(name); e != nil {
		err = &TakenError{*e}
	} else {
		err = fmt.Errorf("register lab %q: %w", name, err)
	}
	return "", nil, err
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

// Entries lists the labs that stand or are being built, by name. What an owner has left behind that was killed is removed.
func (r *Registry) Entries() ([]Entry, error) {
	found, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var all []Entry
	for _, f := range found {
		dir := filepath.Join(r.dir, f.Name())
		gone, err := sweep(dir)
		if err != nil {
			return nil, err
		}
		if gone || strings.HasPrefix(f.Name(), ".") {
			continue // or it is being made, or removed
		}
		e := Entry{Name: f.Name(), Building: true}
		data, err := os.ReadFile(filepath.Join(dir, entryFile))
		if err == nil {
			e.Building = false
			err = json.Unmarshal(data, &e)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list labs: %s: %w", dir, err)
		}
		e.Name = f.Name()
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// sweep removes a lab's directory that nobody owns any more, and says whether it did.
func sweep(dir string) (bool, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < halfMade {
			return false, nil
		}
		return true, discard(dir, nil)
	}
	if err != nil {
		return false, fmt.Errorf("look for the owner of a lab: %w", err)
	}
	defer lock.Close()
	if free, err := process.Lock(lock); err != nil || !free {
		return false, err
	}
	return true, discard(dir, lock)
}

// discard removes the directory of a lab, unless that is another one by now than the one whose lock is held. Its name is free at once.
func discard(dir string, lock *os.File) error {
	if lock != nil {
		held, err1 := lock.Stat()
		there, err2 := os.Stat(filepath.Join(dir, lockFile))
		if err1 != nil || err2 != nil || !os.SameFile(held, there) {
			return nil
		}
	}
	away, err := os.MkdirTemp(filepath.Dir(dir), ".gone-")
	if err == nil {
		err = os.Rename(dir, filepath.Join(away, "lab"))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what is left of a lab: %w", err)
	}
	if err := os.RemoveAll(away); err != nil {
		return fmt.Errorf("remove what is left of a lab: %w", err)
	}
	return nil
}

// Choose returns the lab of that name, or the only one where the name is "".
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
		return Entry{}, errors.New("no lab stands (hint: nettoll lab up EXPERIMENT --stack NAME)")
	case name == "" && len(all) == 1:
		i = 0
	case name == "":
		return Entry{}, fmt.Errorf("%d labs stand: say which (%s)", len(all), strings.Join(names, ", "))
	case i < 0:
		return Entry{}, fmt.Errorf("no lab %q stands (known: %s)", name, strings.Join(names, ", "))
	}
	if all[i].Building {
		return all[i], fmt.Errorf("lab %q is still being built", all[i].Name)
	}
	return all[i], nil
}

// write writes a value as JSON, whole or not at all.
func write(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
