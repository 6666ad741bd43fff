package testkube

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// groupPrefix begins the names of control groups of nodes. The name of the cluster's directory and that of the node
// follow.
const groupPrefix = "nettoll-testkube-"

// lockName is the file in the directory of a cluster whose lock the process of the cluster holds.
const lockName = "lock"

// newDir makes the directory of a cluster.
func newDir() (string, *os.File, error) {
	parent, err := cacheDir("clusters")
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return "", nil, err
	}
	lock, err := os.Create(filepath.Join(dir, lockName))
	if err == nil {
		var mine bool
		if mine, err = process.Lock(lock); err == nil && mine {
			return dir, lock, nil
		}
		err = errors.Join(err, lock.Close())
	}
	return "", nil, errors.Join(fmt.Errorf("lock the directory of the cluster: %w", err), os.RemoveAll(dir))
}

// Clean removes what clusters have left whose processes have ended without [Cluster.Stop]: control groups, and their
// directories. Clusters that run are left alone.
func Clean() error {
	parent, err := cacheDir("clusters")
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := cleanOne(filepath.Join(parent, e.Name())); err != nil {
			return fmt.Errorf("remove what a killed cluster has left: %w", err)
		}
	}
	return nil
}

func cleanOne(dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is just being made, or removed
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if dead, err := process.Lock(lock); err != nil || !dead {
		return err
	}
	groups, err := Groups()
	if err != nil {
		return err
	}
	for _, name := range groups {
		if strings.HasPrefix(name, groupPrefix+filepath.Base(dir)+"-") {
			if err := cgroup.Remove(name); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(dir)
}

// Groups lists the control groups of nodes of all clusters.
func Groups() ([]string, error) {
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var names []string
	for _, h := range hierarchies {
		paths, err := filepath.Glob(filepath.Join(h.Dir, groupPrefix+"*"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if name := filepath.Base(path); !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names, nil
}
