package runtime

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	goruntime "runtime"
)

// Image is the name of the image of a daemon that only nettoll uses.
const Image = "nettoll:empty"

// WriteImage writes an archive with an image that holds no file, as 'docker save' does (Docker Image Specification
// v1.2). Docker, Podman and containerd load it. Containers of it have what is mounted there. Images with different
// labels are different images.
func WriteImage(to io.Writer, name string, labels map[string]string) error {
	var layer bytes.Buffer
	if err := tar.NewWriter(&layer).Close(); err != nil {
		return err
	}
	type rootfs struct {
		Type  string   `json:"type"`
		Diffs []string `json:"diff_ids"`
	}
	type settings struct {
		Labels map[string]string `json:",omitempty"`
	}
	config, err := json.Marshal(struct {
		Architecture string   `json:"architecture"`
		OS           string   `json:"os"`
		Config       settings `json:"config"`
		RootFS       rootfs   `json:"rootfs"`
	}{Architecture: goruntime.GOARCH, OS: "linux", Config: settings{labels}, RootFS: rootfs{
		Type: "layers", Diffs: []string{"sha256:" + digest(layer.Bytes())},
	}})
	if err != nil {
		return err
	}
	type entry struct{ Config, RepoTags, Layers any }
	configName, layerName := digest(config)+".json", digest(layer.Bytes())+".tar"
	manifest, err := json.Marshal([]entry{{
		Config: configName, RepoTags: []string{name}, Layers: []string{layerName},
	}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(to)
	for _, file := range []struct {
		name string
		data []byte
	}{{configName, config}, {layerName, layer.Bytes()}, {"manifest.json", manifest}} {
		if err := archive.WriteHeader(&tar.Header{
			Name: file.name, Mode: 0o644, Size: int64(len(file.data)), Typeflag: tar.TypeReg,
		}); err != nil {
			return err
		}
		if _, err := archive.Write(file.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
