package image

import (
	"fmt"
	"regexp"
	"strings"
)

// A Name is the name of an image. The zero value is no name.
type Name struct {
	Path string // "nettoll", "registry.example.org:5000/tools/nettoll"
	Tag  string // "latest"
}

// latest is the tag of names without one.
const latest = "latest"

// ParseName reads the name of an image, as docker(1) takes it: PATH[:TAG]. The tag is latest by default.
func ParseName(text string) (Name, error) {
	path, tag, tagged := text, latest, false
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, '/') {
		path, tag, tagged = text[:i], text[i+1:], true
	}
	// The grammar of references, https://pkg.go.dev/github.com/distribution/reference. It is compiled when it is needed,
	// because every worker would wait for it.
	const part, host = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`, `(?:[a-zA-Z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]+)?`
	switch paths, tags := regexp.MustCompile(`^(?:`+host+`/)?`+part+`(?:/`+part+`)*$`), regexp.MustCompile(`^\w[\w.-]{0,127}$`); {
	case strings.Contains(text, "@"):
		return Name{}, fmt.Errorf("invalid name %q of an image: a digest follows from its content (want PATH[:TAG])", text)
	case !paths.MatchString(path):
		return Name{}, fmt.Errorf("invalid name %q of an image (want PATH[:TAG] in lower case, such as nettoll:latest or "+
			"registry.example.org/tools/nettoll:v1)", text)
	case tagged && !tags.MatchString(tag):
		return Name{}, fmt.Errorf("invalid tag %q of the image %s (want letters, digits, '_', '.' and '-', 128 at most, "+
			"such as latest)", tag, path)
	}
	return Name{Path: path, Tag: tag}, nil
}

// String returns the name as a user would write it.
func (n Name) String() string { return n.Path + ":" + n.Tag }

// Full returns the name with the registry and the folder that programs think of if a name has none: those of Docker
// Hub.
func (n Name) Full() string {
	switch first, _, folders := strings.Cut(n.Path, "/"); {
	case !folders:
		return "docker.io/library/" + n.String()
	case first != "localhost" && !strings.ContainsAny(first, ".:") && first == strings.ToLower(first):
		return "docker.io/" + n.String()
	}
	return n.String()
}
