package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// files returns the files of a tar archive, each with its mode and its content.
func files(t *testing.T, data []byte) map[string]string {
	t.Helper()
	found := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if found[h.Name] != "" {
			t.Errorf("file %s is there twice", h.Name)
		}
		found[h.Name] = h.FileInfo().Mode().String() + " " + string(content)
	}
}

// Both ways to read an archive lead to the same files, each under the digest of its content.
func TestWrite(t *testing.T) {
	i := Image{
		Name: Name{Path: "nettoll", Tag: "v1"}, Arch: "arm64", Created: time.Unix(1, 0),
		Config: Config{Entrypoint: []string{"/nettoll"}, Labels: map[string]string{"a": "b"}},
		Files: []File{
			{Path: "nettoll", Mode: 0o755, Data: []byte("program")},
			{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
			{Path: "note", Data: []byte("text")},
		},
	}
	var b, again bytes.Buffer
	if err := i.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := i.Write(&again); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("a second archive of the same image differs (%v)", err)
	}
	all := files(t, b.Bytes())
	at := func(path string, to any) {
		t.Helper()
		if err := json.Unmarshal([]byte(strings.TrimPrefix(all[path], "-rw-r--r-- ")), to); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	blob := func(d descriptor) string {
		t.Helper()
		content := strings.TrimPrefix(all[blobPath(d.Digest)], "-rw-r--r-- ")
		if d.Digest != digest([]byte(content)) || d.Size != len(content) {
			t.Errorf("blob %+v holds %d bytes with digest %s", d, len(content), digest([]byte(content)))
		}
		return blobPath(d.Digest)
	}
	var layout map[string]string
	if at("oci-layout", &layout); layout["imageLayoutVersion"] != "1.0.0" {
		t.Errorf("layout %v", layout)
	}
	var index struct{ Manifests []descriptor }
	at("index.json", &index)
	if len(index.Manifests) != 1 {
		t.Fatalf("index %+v", index)
	}
	names := index.Manifests[0].Annotations
	if names["io.containerd.image.name"] != "docker.io/library/nettoll:v1" ||
		names["org.opencontainers.image.ref.name"] != "v1" {
		t.Errorf("names %v", names)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	at(blob(index.Manifests[0]), &manifest)
	var docker []struct {
		Config           string
		RepoTags, Layers []string
	}
	at("manifest.json", &docker)
	if len(docker) != 1 || len(manifest.Layers) != 1 || docker[0].Config != blob(manifest.Config) ||
		!cmp.Equal(docker[0].Layers, []string{blob(manifest.Layers[0])}) ||
		!cmp.Equal(docker[0].RepoTags, []string{"nettoll:v1"}) {
		t.Errorf("Docker reads %+v, others %+v", docker, manifest)
	}
	var config map[string]any
	at(docker[0].Config, &config)
	if diff := cmp.Diff(map[string]any{
		"architecture": "arm64", "os": "linux", "created": "1970-01-01T00:00:01Z",
		"config": map[string]any{"Entrypoint": []any{"/nettoll"}, "Labels": map[string]any{"a": "b"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{manifest.Layers[0].Digest}},
	}, config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	layer := strings.TrimPrefix(all[docker[0].Layers[0]], "-rw-r--r-- ")
	if diff := cmp.Diff(map[string]string{
		"nettoll": "-rwxr-xr-x program", "note": "-rw-r--r-- text", "tmp/": "dtrwxrwxrwx ",
	}, files(t, []byte(layer))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestName(t *testing.T) {
	for _, c := range []struct{ text, short, full, wrong string }{
		{text: "nettoll", short: "nettoll:latest", full: "docker.io/library/nettoll:latest"},
		{text: "nettoll:v1.2-rc_1", short: "nettoll:v1.2-rc_1", full: "docker.io/library/nettoll:v1.2-rc_1"},
		{text: "me/nettoll", short: "me/nettoll:latest", full: "docker.io/me/nettoll:latest"},
		{text: "localhost/nettoll", short: "localhost/nettoll:latest", full: "localhost/nettoll:latest"},
		{text: "example.org:5000/a/b__c:1", short: "example.org:5000/a/b__c:1", full: "example.org:5000/a/b__c:1"},
		{text: "example.org:5000/a", short: "example.org:5000/a:latest", full: "example.org:5000/a:latest"},
		{text: "[fd00::1]:5000/a", short: "[fd00::1]:5000/a:latest", full: "[fd00::1]:5000/a:latest"},
		{text: "Nettoll", wrong: `invalid name "Nettoll" of an image (want PATH[:TAG] in lower case`},
		{text: "", wrong: `invalid name "" of an image`},
		{text: "a//b", wrong: `invalid name "a//b"`},
		{text: "a:", wrong: `invalid tag "" of the image a`},
		{text: "a:b c", wrong: `invalid tag "b c" of the image a`},
		{text: "a:" + strings.Repeat("x", 129), wrong: "128 at most"},
		{text: "a@sha256:00", wrong: "a digest follows from its content"},
		{text: "a\nb", wrong: `invalid name "a\nb"`},
	} {
		got, err := ParseName(c.text)
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("ParseName(%q) = %v, %v, want an error with %q", c.text, got, err, c.wrong)
			}
		case err != nil || got.String() != c.short || got.Full() != c.full:
			t.Errorf("ParseName(%q) = %v, %s, %v, want %s, %s", c.text, got, got.Full(), err, c.short, c.full)
		}
	}
}
