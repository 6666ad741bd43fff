package procfs

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestOption(t *testing.T) {
	const config = "#\n# Automatically generated\n#\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n# CONFIG_KASAN is not set\n"
	for _, c := range []struct {
		name, want string
	}{{"CONFIG_HZ", "250"}, {"CONFIG_HZ_250", "y"}, {"CONFIG_KASAN", "n"}, {"CONFIG_KA", "n"}} {
		if got, known := option(strings.NewReader(config), c.name); got != c.want || !known {
			t.Errorf("%s is %q, known %t; want %q", c.name, got, known, c.want)
		}
	}
	if got, known := option(io.MultiReader(strings.NewReader(config), iotest.ErrReader(errors.New("torn"))),
		"CONFIG_X"); known {
		t.Errorf("of a torn configuration it is known that CONFIG_X is %q", got)
	}
}
