package golden

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is set by go test PACKAGE -update. Files are then written, and nothing is compared.
//
//nolint:gochecknoglobals // a flag of test binaries
var update = flag.Bool("update", false, "write the files that tests compare with (testdata/*.golden)")

// Compare fails the test unless got equals testdata/NAME.golden. Characters that do not belong into a file name become
// hyphens, so that name can be the name of a test.
func Compare(t testing.TB, name, got string) {
	t.Helper()
	compare(t, "testdata", name, got, *update)
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9.]+`)

func compare(t testing.TB, dir, name, got string, write bool) {
	t.Helper()
	file := filepath.Join(dir, strings.Trim(unfit.ReplaceAllString(name, "-"), "-")+".golden")
	if write {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read what is expected: %v (go test -update writes it; read what it writes)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
