package control

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// keepFrames writes the frames that passed between hosts during a proof, if they are kept, into the run directory:
// pcap/GENERATION-LAB-WHEN.pcapng. They are those of the first generation, and those of proofs in which the wire was
// not as the stack says; the others are alike.
func (s *scheduler) keepFrames(l *lab, when string, claims []measure.Proof) error {
	c := l.capture
	l.capture = nil
	if c == nil || l.generation.number > firstGeneration &&
		!slices.ContainsFunc(claims, func(p measure.Proof) bool {
			return !p.OK && (p.Name == proof.OnWire || p.Name == proof.Hidden)
		}) {
		return nil
	}
	name := fmt.Sprintf("%d-%s-%s.pcapng", l.generation.number, strings.ReplaceAll(l.ID, "/", "-"), when)
	err := owned.Replace(s.options.Dir, filepath.Join("pcap", name), func(w io.Writer) error {
		_, err := w.Write(c.PCAPNG)
		return err
	})
	if err != nil {
		return fmt.Errorf("write the frames of a proof: %w", err)
	}
	if c.Left > 0 {
		s.records.warn(measure.Warning{
			Lab: l.ID, Text: fmt.Sprintf("pcap/%s lacks %d frames: there were too many to keep (use fewer --pairs)", name,
				c.Left),
		})
	}
	return nil
}
