package testkube

import (
	"context"
	"fmt"

	"github.com/nettoll/nettoll/internal/testprogram"
)

// version is the version of Kubernetes that cluster/go.mod names.
const version = "v1.35.4"

// home is this folder, and the one of the user's cache directory that has its files.
const (
	home  = "internal/testkube"
	cache = "testkube"
)

func kubernetes() testprogram.Program {
	return testprogram.Program{
		Folder: home + "/cluster", Package: ".", Cache: cache, File: "kube-", What: "the programs of Kubernetes " + version,
		Minutes: "ten minutes", Version: version,
		Linking: "-s -w -X k8s.io/component-base/version.gitVersion=" + version,
	}
}

// Build builds the binary with all programs of a cluster (folder cluster), or finds the one of an earlier call in the
// user's cache directory. It returns its path. Building took four minutes on two CPUs, and takes a quarter of a
// minute if Go's build cache has the packages. Processes that build at a time wait for each other. Say is called with
// what takes more than two seconds.
func Build(ctx context.Context, say func(string)) (string, error) {
	return kubernetes().Build(ctx, say)
}

// Program builds a command of this module, such as "./cmd/nettoll", as a static binary at a path.
func Program(ctx context.Context, pkg, path string) error {
	source, _, err := testprogram.Source(ctx, ".")
	if err == nil {
		err = testprogram.Compile(ctx, source, pkg, path, "-s -w")
	}
	if err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}

// cacheDir makes a directory in the user's cache directory.
func cacheDir(name string) (string, error) { return testprogram.CacheDir(cache, name) }
