{{- define "pullwarden.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "pullwarden.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "pullwarden.labels" -}}
app.kubernetes.io/name: pullwarden
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "pullwarden.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A container that may do nothing but what its user id may. */}}
{{- define "pullwarden.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "pullwarden.selector" -}}
{{- $pairs := list }}
{{- range $key, $value := .Values.installer.nodeSelector }}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) }}
{{- end }}
{{- join "," $pairs }}
{{- end }}

{{- define "pullwarden.rolloutArgs" -}}
- --name={{ include "pullwarden.name" . }}-rollout
- --pod-template=/etc/pullwarden/pod.yaml
- {{ printf "--target=%s#%v" (include "pullwarden.image" .) .Values.installer.retry | quote }}
- {{ printf "--selector=%s" (include "pullwarden.selector" .) | quote }}
- {{ printf "--stages=%s" (join "," .Values.installer.stages) | quote }}
- {{ printf "--max-unavailable=%s" .Values.installer.maxUnavailable | quote }}
- --settle-time={{ .Values.installer.settleTime }}
- --ready-timeout={{ .Values.installer.readyTimeout }}
- --install-timeout={{ .Values.installer.installTimeout }}
{{- end }}

{{- /* The pod of the controller, and of the job that undoes: the same but for the verb. */}}
{{- define "pullwarden.rolloutPod" -}}
serviceAccountName: {{ include "pullwarden.name" .root }}-rollout
{{- include "pullwarden.pullSecrets" .root }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
{{- with .root.Values.installer.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
containers:
- name: rollout
  image: {{ include "pullwarden.image" .root | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [/usr/lib/pullwarden/pullwarden-rollout, {{ .verb }}]
  args:
  {{- include "pullwarden.rolloutArgs" .root | nindent 2 }}
  env:
  - name: POD_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  securityContext:
    {{- include "pullwarden.restricted" .root | nindent 4 }}
  resources:
    {{- toYaml .root.Values.installer.resources | nindent 4 }}
  volumeMounts:
  - {name: template, mountPath: /etc/pullwarden, readOnly: true}
volumes:
- name: template
  configMap: {name: {{ include "pullwarden.name" .root }}-node-pod}
{{- end }}
