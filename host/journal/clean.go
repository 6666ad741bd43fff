package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// A Result is the result of cleaning one journal.
type Result struct {
	// File is its path, and PID the process of its run; 0 if the journal does not have it.
	File string
	PID  int
	// Left is why nothing was changed: "its run lives". It is "" if the run is dead.
	Left string
	// Removed are the steps that were removed, in plain words.
	Removed []string
	// Err is why something is left; nil if nothing is. If something is left, the journal stays.
	Err error
}

// Clean removes what the journals of dead runs name, and each journal of which nothing is left. It does not touch
// journals of live runs. A directory that does not exist has no journals.
func (p Place) Clean(ctx context.Context) ([]Result, error) {
	dir, err := owned.Open(p.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the directory of journals: %w", err)
	}
	defer dir.Close()
	here, err := self()
	if err != nil {
		return nil, err
	}
	found, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	var results []Result
	for _, f := range found {
		if strings.HasPrefix(f.Name(), unfinished) {
			if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > halfMade {
				_ = dir.Remove(f.Name()) // its process had not begun anything
			}
			continue
		}
		if !strings.HasSuffix(f.Name(), suffix) {
			continue // not a journal
		}
		if r := p.clean(ctx, dir, f.Name(), here); r != nil {
			results = append(results, *r)
		}
	}
	return results, nil
}

// clean removes what one journal names, if its run is dead. It returns nil for a journal that is gone.
func (p Place) clean(ctx context.Context, dir *owned.Dir, name string, here Run) *Result {
	r := &Result{File: filepath.Join(p.Dir, name)}
	fail := func(err error) *Result {
		r.Err = fmt.Errorf("journal %q: %w", r.File, err)
		return r
	}
	f, err := dir.File(name, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	data, err := dir.Read(name)
	if err != nil {
		return fail(err)
	}
	c := read(data)
	if c.run == nil {
		return fail(errors.New("it names no run"))
	}
	r.PID = c.run.PID
	if r.Left = c.run.left(here); r.Left != "" {
		return r
	}
	for deadline := time.Now().Add(ending); ; time.Sleep(10 * time.Millisecond) {
		free, err := process.Lock(f)
		if err != nil {
			return fail(err)
		}
		if free {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fail(fmt.Errorf("run %d has ended, but another process still has its journal open: wait until it "+
				"ends", c.run.PID))
		}
	}
	if data, err = dir.Read(name); errors.Is(err, fs.ErrNotExist) {
		return nil // another process has cleaned up in the meantime
	} else if err != nil {
		return fail(err)
	}
	var errs []error
	for _, s := range slices.Backward(read(data).steps) {
		text, err := p.remove(ctx, s, f, c.run.Boot != here.Boot)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.Removed = append(r.Removed, text)
	}
	if err := errors.Join(errs...); err != nil {
		return fail(err)
	}
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	return r
}
