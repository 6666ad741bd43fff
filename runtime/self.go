package runtime

import (
	"fmt"

	"github.com/nettoll/nettoll/internal/image"
	"github.com/nettoll/nettoll/internal/linux"
)

// static returns a [linux.UnsupportedError] if the program at this path needs a loader of shared libraries: containers
// have no file but the program.
func static(what, path string) error {
	loader, err := image.Loader(path)
	if err != nil || loader == "" {
		return err
	}
	return &linux.UnsupportedError{
		What: what, Missing: fmt.Sprintf("nettoll without shared libraries: this one needs %s, and containers have no file "+
			"but nettoll", loader),
		Hint: "build it with make build, which sets CGO_ENABLED=0",
	}
}
