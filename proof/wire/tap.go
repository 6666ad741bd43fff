package wire

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sock"
)

// A tap hears what each link of the receiving host gets.
type tap struct {
	links  []link.Surveyed
	heard  []record
	files  []*os.File
	reader sync.WaitGroup
}

func (s *stand) tap() (*tap, error) {
	ns, err := s.Open(s.sink.host, "")
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	t := &tap{}
	err = within(ns, func(h *link.Handle) error {
		found, err := h.Survey()
		if err != nil {
			return err
		}
		for _, l := range found.Links {
			if l.Name == "lo" || !l.Up {
				continue
			}
			f, err := sock.Frames(l.Index)
			if err != nil {
				return err
			}
			t.links, t.files = append(t.links, l), append(t.files, f)
		}
		return nil
	})
	if err != nil {
		for _, f := range t.files {
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	t.heard = make([]record, len(t.files))
	for i, f := range t.files {
		t.reader.Go(func() {
			buf := make([]byte, 1<<16)
			for {
				n, err := f.Read(buf)
				if errors.Is(err, fs.ErrClosed) {
					return
				}
				if err == nil {
					t.heard[i].keep(buf[:n])
				}
			}
		})
	}
	return t, nil
}

// close ends it, and returns what f makes of the first frame of each link of which it makes something.
func (t *tap) close(f func(l link.Surveyed, frame []byte) []byte) (list [][]byte) {
	for _, file := range t.files {
		_ = file.Close() // nothing was written
	}
	t.reader.Wait()
	for i, l := range t.links {
		for _, frame := range t.heard[i].all() {
			if one := f(l, frame); one != nil {
				list = append(list, one)
				break
			}
		}
	}
	return list
}
