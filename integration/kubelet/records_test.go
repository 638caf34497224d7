// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Records returns the kubelet's records of images that it has pulled, and with whose
// credentials (KEP-2535), by the image's name without its tag.
func (k *Kubelet) Records() map[string][]credentials {
	k.T.Helper()
	files, err := filepath.Glob(filepath.Join(rootDir, "image_manager", "pulled", "*"))
	k.Node.Must(err)
	all := map[string][]credentials{}
	for _, file := range files {
		var record struct {
			CredentialMapping map[string]credentials `json:"credentialMapping"`
		}
		data, err := os.ReadFile(file)
		k.Node.Must(err)
		k.Node.Must(json.Unmarshal(data, &record))
		for name, c := range record.CredentialMapping {
			all[name] = append(all[name], c)
		}
	}
	return all
}

// credentials are those that the kubelet takes for good for an image.
type credentials struct {
	NodePodsAccessible bool `json:"nodePodsAccessible"` // whoever asks
	KubernetesSecrets  []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"kubernetesSecrets"`
}
