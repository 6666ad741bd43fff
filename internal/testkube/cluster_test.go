package testkube_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testkube"
)

func TestMain(m *testing.M) { testkube.Main(m) }

func TestUp(t *testing.T) {
	c := testkube.New(t, testkube.Options{})
	text, err := c.Kubectl(t.Context(), "get", "nodes", "-o", "wide")
	t.Log(text, err)
	t.Log(c.Logs(5))
}
