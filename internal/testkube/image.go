package testkube

import (
	"io/fs"
	"maps"
	"os"
	"path"
	goruntime "runtime"
	"slices"

	"github.com/nettoll/nettoll/internal/image"
)

// An Image is an image that every node has. Pods that use it have imagePullPolicy: Never.
type Image struct {
	// Name is its name and tag, such as "nettoll:test".
	Name string
	// Files are its files by their paths in the image, each a path of this machine; all of them are executable.
	Files map[string]string
	// Entrypoint is the command of its containers, unless the pod has one.
	Entrypoint []string
	// Archive is the path of a finished image instead, which has all of the above: as nettoll image -o writes it. Fake
	// nodes do not look into it.
	Archive string
}

// write writes the archive of an image.
func (i Image) write(to string) error {
	if i.Archive != "" {
		data, err := os.ReadFile(i.Archive)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o600)
	}
	name, err := image.ParseName(i.Name)
	if err != nil {
		return err
	}
	all := image.Image{
		Name: name, Arch: goruntime.GOARCH, Config: image.Config{Entrypoint: i.Entrypoint},
		Files: []image.File{{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777}},
	}
	made := []string{"/", "/tmp"}
	for _, file := range slices.Sorted(maps.Keys(i.Files)) {
		var above []string
		for dir := path.Dir(file); !slices.Contains(made, dir); dir = path.Dir(dir) {
			above, made = append(above, dir), append(made, dir)
		}
		for _, dir := range slices.Backward(above) {
			all.Files = append(all.Files, image.File{Path: dir[1:], Mode: fs.ModeDir | 0o755})
		}
		data, err := os.ReadFile(i.Files[file])
		if err != nil {
			return err
		}
		all.Files = append(all.Files, image.File{Path: file[1:], Mode: 0o755, Data: data})
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	return all.Write(f)
}
