package runtime

import (
	"io"
	goruntime "runtime"

	"github.com/nettoll/nettoll/internal/image"
)

// Image is the name of the image of a daemon that only nettoll uses.
const Image = "nettoll:empty"

// WriteImage writes an archive with an image that holds no file. Docker, Podman and containerd load it. Containers of
// it have what is mounted there. Images with different labels are different images.
func WriteImage(to io.Writer, name string, labels map[string]string) error {
	named, err := image.ParseName(name)
	if err != nil {
		return err
	}
	return image.Image{Name: named, Arch: goruntime.GOARCH, Config: image.Config{Labels: labels}}.Write(to)
}
