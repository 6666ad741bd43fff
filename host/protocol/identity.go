package protocol

import (
	"debug/elf"
	"fmt"
	"runtime/debug"
)

// Version is the version of the protocol. It changes if an older peer would misunderstand.
const Version = 1

// Pin is a method of workers in containers, which limits them to CPUs. Its parameters are a list of their numbers.
const Pin = "pin"

// An Identity identifies a peer: two peers must be the same program.
type Identity struct {
	// Version of the protocol.
	Version int `json:"version"`
	// Build identifies the binary.
	Build string `json:"build"`
}

// String returns the identity in a few words.
func (i Identity) String() string {
	return fmt.Sprintf("build %q with protocol %d", i.Build, i.Version)
}

// Self returns the identity of this program: its Go build id, a hash over everything in the build. If the linker was
// told to leave that out, it is the version and revision.
func Self() (Identity, error) {
	const exe = "/proc/self/exe"
	id, err := buildID(exe)
	if err != nil {
		return Identity{}, fmt.Errorf("read the build id of %s: %w", exe, err)
	}
	if id == "" {
		if info, ok := debug.ReadBuildInfo(); ok {
			id = info.Main.Version
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" || s.Key == "vcs.modified" || s.Key == "vcs.time" {
					id += " " + s.Value
				}
			}
		}
	}
	return Identity{Version: Version, Build: id}, nil
}

// buildID reads the note of the Go linker (cmd/internal/buildid): sizes of name and text, type 4, the name "Go", the
// text.
func buildID(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return "", nil
	}
	note, err := s.Data()
	if err != nil {
		return "", err
	}
	if len(note) < 16 {
		return "", fmt.Errorf("note of %d bytes (at least 16 are needed)", len(note))
	}
	size := int(f.ByteOrder.Uint32(note[4:]))
	if string(note[12:16]) != "Go\x00\x00" || size > len(note)-16 {
		return "", fmt.Errorf("not a note of the Go linker: %.24q", note)
	}
	return string(note[16 : 16+size]), nil
}
