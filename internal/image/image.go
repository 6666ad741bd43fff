package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"time"
)

// An Image is an image of one layer for Linux.
type Image struct {
	Name Name
	Arch string // as Go calls it: "amd64"
	// Created is when it was made; the zero value: it does not say.
	Created time.Time
	Config  Config
	Files   []File
}

// A Config is how containers of an image are started, and what it says of itself. Keys are those of the OCI image
// specification (config.md).
type Config struct {
	Entrypoint   []string            `json:",omitempty"`
	Cmd          []string            `json:",omitempty"`
	Env          []string            `json:",omitempty"` // "NAME=value"
	WorkingDir   string              `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"` // "8655/tcp"
	Labels       map[string]string   `json:",omitempty"`
}

// A File is a file or a directory of an image. It belongs to root.
type File struct {
	Path string // from the root, without the first slash
	Mode fs.FileMode
	Data []byte
}

// Media types of the OCI image specification (media-types.md).
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// A platform is what programs of an image run on.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// A descriptor points to a blob (descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

// Write writes an archive of the image. It is two in one, like those of `docker save` since version 25: an OCI image
// layout (OCI image specification 1.1, image-layout.md), and the manifest.json of Docker's older archives (Docker Image
// Specification 1.2), which names the same files. Programs that know only one of them read that. An image has the same
// bytes each time.
func (i Image) Write(to io.Writer) error {
	var layer bytes.Buffer
	content := archive{tar: tar.NewWriter(&layer)}
	for _, f := range i.Files {
		content.add(f)
	}
	if err := content.close(); err != nil {
		return err
	}
	type rootfs struct {
		Type  string   `json:"type"`
		Diffs []string `json:"diff_ids"`
	}
	config := struct {
		platform
		Created *time.Time `json:"created,omitempty"`
		Config  Config     `json:"config"`
		RootFS  rootfs     `json:"rootfs"`
	}{
		platform: platform{Architecture: i.Arch, OS: "linux"}, Config: i.Config,
		RootFS: rootfs{Type: "layers", Diffs: []string{digest(layer.Bytes())}},
	}
	if !i.Created.IsZero() {
		config.Created = new(i.Created.UTC())
	}

	all := archive{tar: tar.NewWriter(to)}
	configAt := all.blob(typeConfig, all.json(config))
	layerAt := all.blob(typeLayer, layer.Bytes())
	manifestAt := all.blob(typeManifest, all.json(struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}{2, typeManifest, configAt, []descriptor{layerAt}}))
	manifestAt.Platform = &config.platform
	manifestAt.Annotations = map[string]string{
		"io.containerd.image.name":          i.Name.Full(), // what containerd, Docker and Podman take for the name
		"org.opencontainers.image.ref.name": i.Name.Tag,
	}
	all.add(File{Path: "index.json", Data: all.json(struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Manifests     []descriptor `json:"manifests"`
	}{2, typeIndex, []descriptor{manifestAt}})})
	all.add(File{Path: "oci-layout", Data: []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	type entry struct {
		Config           string
		RepoTags, Layers []string
	}
	all.add(File{Path: "manifest.json", Data: all.json([]entry{{
		Config: blobPath(configAt.Digest), RepoTags: []string{i.Name.String()}, Layers: []string{blobPath(layerAt.Digest)},
	}})})
	return all.close()
}

// An archive is a tar archive in the making. After an error it takes nothing more.
type archive struct {
	tar *tar.Writer
	err error
}

// add adds a file. Without a mode, everybody may read it.
func (a *archive) add(f File) {
	if a.err != nil {
		return
	}
	h := &tar.Header{Name: f.Path, Mode: int64(f.Mode.Perm()), Size: int64(len(f.Data)), Typeflag: tar.TypeReg}
	if f.Mode == 0 {
		h.Mode = 0o644
	}
	if f.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000 // S_ISVTX, inode(7)
	}
	if f.Mode.IsDir() {
		h.Name, h.Typeflag = f.Path+"/", tar.TypeDir
	}
	if a.err = a.tar.WriteHeader(h); a.err == nil {
		_, a.err = a.tar.Write(f.Data)
	}
}

// blob adds data under its digest.
func (a *archive) blob(mediaType string, data []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	a.add(File{Path: blobPath(d.Digest), Data: data})
	return d
}

// json encodes what can be encoded.
func (a *archive) json(v any) []byte {
	data, err := json.Marshal(v)
	if a.err == nil {
		a.err = err
	}
	return data
}

func (a *archive) close() error {
	if err := a.tar.Close(); a.err == nil {
		a.err = err
	}
	return a.err
}

const algorithm = "sha256"

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return algorithm + ":" + hex.EncodeToString(sum[:])
}

func blobPath(digest string) string { return "blobs/" + algorithm + "/" + digest[len(algorithm)+1:] }
