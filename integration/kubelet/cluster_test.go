// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	server     = "https://127.0.0.1:6443" // the API server's own certificate names no one
	token      = "of-the-test"            // of an administrator
	kubeconfig = "/run/kubeconfig.json"
)

// Cluster is a stock kube-apiserver and its etcd, from which a kubelet has its pods
// and their pull secrets.
type Cluster struct {
	k      *Kubelet
	client *http.Client
}

// onCluster is onNode with an API server, and with that registry behind
// registry.test.
func onCluster(t *testing.T, r func(*testing.T) *resolvertest.Registry, test func(*Kubelet, *Cluster), opts ...nodetest.Option) {
	t.Helper()
	alone(t, func(t *testing.T) {
		k := newKubelet(t, r(t), opts...)
		c := &Cluster{k, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
		c.start()
		k.cluster = c
		k.Config["registerNode"] = true
		k.Node.Write(kubeconfig, marshal(t, map[string]any{
			"apiVersion": "v1", "kind": "Config", "current-context": "test",
			"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{"server": server, "insecure-skip-tls-verify": true}}},
			"users":    []any{map[string]any{"name": "test", "user": map[string]any{"token": token}}},
			"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "test"}}},
		}))
		k.Flags = []string{"--kubeconfig", kubeconfig}
		k.Start()
		test(k, c)
	})
}

// start starts etcd and the API server, and waits until it is ready. They end with
// the process.
func (c *Cluster) start() {
	t, n := c.k.T, c.k.Node
	t.Helper()
	dir := binary(t, kubernetesEnv)
	n.Write("/run/tokens.csv", token+",administrator,1,system:masters\n")
	n.Write("/run/accounts.pem", string(privateKey(t)))
	c.run(filepath.Join(dir, "etcd"), "--data-dir", "/var/lib/etcd", "--unsafe-no-fsync", "--log-level", "warn")
	c.run(filepath.Join(dir, "kube-apiserver"), "--etcd-servers", "http://127.0.0.1:2379", "--cert-dir", "/run/apiserver",
		"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.0.0.0/24",
		"--token-auth-file", "/run/tokens.csv", "--authorization-mode", "AlwaysAllow", "--disable-admission-plugins", "ServiceAccount",
		"--service-account-issuer", "https://test", "--service-account-key-file", "/run/accounts.pem", "--service-account-signing-key-file", "/run/accounts.pem")
	c.k.until("the API server is ready", func() error { return c.call(http.MethodGet, "/api/v1/namespaces/default", nil) })
}

// run starts a process that ends with this one. Its output is in a file of its name.
func (c *Cluster) run(path string, args ...string) {
	c.k.T.Helper()
	log, err := os.Create(filepath.Join("/var/log", filepath.Base(path)+".log"))
	c.k.Node.Must(err)
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	c.k.Node.Must(cmd.Start())
	c.k.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
}

// Secret makes a pull secret for registry.test in the namespace default.
func (c *Cluster) Secret(name, user, password string) {
	c.k.T.Helper()
	auth := map[string]any{"auths": map[string]any{"registry.test": map[string]string{"username": user, "password": password}}}
	c.k.Node.Must(c.call(http.MethodPost, "/api/v1/namespaces/default/secrets", map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": metadata{Name: name}, "type": "kubernetes.io/dockerconfigjson",
		"data": map[string]string{".dockerconfigjson": base64.StdEncoding.EncodeToString([]byte(marshal(c.k.T, auth)))},
	}))
}

// put makes a pod that is bound to the node.
func (c *Cluster) put(o object) error {
	o.Spec.Node = nodeName
	return c.call(http.MethodPost, "/api/v1/namespaces/"+o.Metadata.Namespace+"/pods", o)
}

// remove takes a pod away.
func (c *Cluster) remove(namespace, name string) error {
	return c.call(http.MethodDelete, "/api/v1/namespaces/"+namespace+"/pods/"+name, nil)
}

// call asks the API server. The error has its answer, where that is none of success.
func (c *Cluster) call(method, path string, body any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequest(method, server+path, &content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return nil
}

// privateKey makes a key that service accounts' tokens could be signed with.
func privateKey(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
