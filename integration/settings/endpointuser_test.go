// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestErrorsTellNoUserOfAnEndpoint holds that no pod, and no log, is told the password in an endpoint of
// CRI's deprecated registry.mirrors with a mistake, as none is told one of hosts.toml.
func TestErrorsTellNoUserOfAnEndpoint(t *testing.T) {
	t.Parallel()
	for name, endpoint := range map[string]string{
		"with a scheme": "https://robot:hush/9%zz@mirror.test", "without a scheme": "robot:hush%zz@mirror.test",
	} {
		t.Run(name, func(t *testing.T) {
			origin := resolvertest.New(t)
			n := nodetest.Start(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.AuditLog("audit.log"),
				nodetest.WithoutHostsDirectories(), nodetest.Tables(fmt.Sprintf(`
[plugins.'io.containerd.cri.v1.images'.registry.mirrors.'%s']
  endpoint = ['%s']
`, origin.Host(), endpoint)))
			n.Registry = origin
			n.Push("app:1", nodetest.Image(1))
			_, err := n.Pull(origin.Host() + "/app:1")
			if err == nil {
				t.Fatal("pulled")
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("the pod is told: %v", err)
			}
			r := n.Command("explain", origin.Host()+"/app:1", "-o", "json")
			if strings.Contains(r.Stdout, "hush") {
				t.Errorf("explain tells: %s", r.Stdout)
			}
			n.Stop()
			for _, file := range []string{n.Path("audit.log"), n.LogFile()} {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(string(data)) {
					if strings.Contains(line, "hush") {
						t.Errorf("%s: %.400s", file, line)
					}
				}
			}
		})
	}
}
