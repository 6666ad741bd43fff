// Command docs writes the generated documents.
//
//	docs FILE                           docs/workloads.md or docs/between.md, from the catalogue
//	docs FILE VERSION KERNEL=OUTPUT...  docs/parts.md, from the output of the conformance suites (go test -v) by kernel;
//	                                    in docs/security.md the tables of attacks, from what nettoll prove --format json
//	                                    prints. VERSION is that of the tree that printed it
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nettoll/nettoll/cli"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "docs: %v\n", err)
		os.Exit(1)
	}
}

func write(args []string) error {
	if len(args) == 0 || len(args) == 2 {
		return errors.New("want FILE, or FILE, VERSION and KERNEL=OUTPUT for each kernel")
	}
	if len(args) > 2 {
		document := parts
		if filepath.Base(args[0]) == "security.md" {
			document = security
		}
		return document(args[0], args[2:], origin{time.Now(), args[1]})
	}
	document := cli.WorkloadsDocument
	if filepath.Base(args[0]) == "between.md" {
		document = cli.BetweenDocument
	}
	text, err := document()
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], text, 0o666)
}

// origin is when and of which version of nettoll the results of a document are.
type origin struct {
	on      time.Time
	version string
}

func (o origin) String() string {
	return fmt.Sprintf("%s, nettoll %s", o.on.Format(time.DateOnly), o.version)
}

// parts writes docs/parts.md.
func parts(file string, given []string, of origin) error {
	var all []outcome
	var between []pair
	var under []labOf
	for _, arg := range given {
		kernel, output, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("want KERNEL=OUTPUT, got %q", arg)
		}
		text, err := os.ReadFile(output)
		if err != nil {
			return err
		}
		list, err1 := outcomes(bytes.NewReader(text), kernel)
		more, err2 := pairs(bytes.NewReader(text), kernel)
		made, err3 := labs(bytes.NewReader(text), kernel)
		if err := errors.Join(err1, err2, err3); err != nil {
			return fmt.Errorf("read %s: %w", output, err)
		}
		all, between, under = append(all, list...), append(between, more...), append(under, made...)
	}
	if len(all)+len(under)+len(between) == 0 {
		return errors.New("the given output has no test of a conformance suite (hint: make parts)")
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	suites, runtimes, pairs := sections(string(old))
	if len(all) > 0 {
		suites = partsDocument(all, of)
	}
	if len(under) > 0 {
		runtimes = labsDocument(under, of)
	}
	if len(between) > 0 {
		pairs = pairsDocument(between, of, pairs)
	}
	return os.WriteFile(file, []byte(cli.WrapDocument(suites+runtimes+pairs)), 0o666)
}

// sections splits docs/parts.md before the sections on runtimes and on pairs. Those of which there is no new output
// stay as they are: some take hours.
func sections(old string) (suites, runtimes, pairs string) {
	suites = old
	if i := strings.Index(suites, pairsTitle); i >= 0 {
		suites, pairs = suites[:i], suites[i:]
	}
	if i := strings.Index(suites, runtimesTitle); i >= 0 {
		suites, runtimes = suites[:i], suites[i:]
	}
	return suites, runtimes, pairs
}
