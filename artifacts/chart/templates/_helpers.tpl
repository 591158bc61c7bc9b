{{/* Labels that select the Pods. */}}
{{- define "mcs.selector" -}}
app.kubernetes.io/name: mcs-apiserver
{{- end }}

{{/* The storage that is used, and the one that objects are moved from, as JSON. */}}
{{- define "mcs.storages" -}}
{{- compact (list .Values.storage.mode .Values.storage.migrateFrom) | toJson }}
{{- end }}

{{- define "mcs.replicas" -}}
{{- if has "embedded" (include "mcs.storages" . | fromJsonArray) }}1{{ else }}{{ .Values.replicas }}{{ end }}
{{- end }}

{{/* The image of a program: (dict "root" $ "program" "mcs-apiserver" "image" ""). */}}
{{- define "mcs.image" -}}
{{- if .image -}}
{{ .image }}
{{- else -}}
{{- with .root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .program }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* 90% of a memory limit in Mi or Gi, rounded down to 10 MiB. */}}
{{- define "mcs.memoryLimit" -}}
{{- $mebibytes := trimSuffix "Mi" . | atoi -}}
{{- if hasSuffix "Gi" . }}{{ $mebibytes = mul 1024 (trimSuffix "Gi" . | atoi) }}{{ end -}}
{{ mul 10 (div (mul $mebibytes 9) 100) }}MiB
{{- end }}

{{/* Flags of mcs-apiserver. */}}
{{- define "mcs.apiserver.args" -}}
{{- $storages := include "mcs.storages" . | fromJsonArray }}
{{- if or .Values.storage.migrateFrom (ne .Values.storage.mode "cluster") }}
- --storage={{ .Values.storage.mode }}
{{- end }}
{{- if has "embedded" $storages }}
- --data-dir=/var/lib/mcs-apiserver
{{- end }}
{{- if has "etcd" $storages }}
- --etcd-servers={{ join "," .Values.storage.etcd.servers }}
- --etcd-cafile=/etc/mcs-apiserver/etcd/ca.crt
- --etcd-certfile=/etc/mcs-apiserver/etcd/tls.crt
- --etcd-keyfile=/etc/mcs-apiserver/etcd/tls.key
{{- end }}
- --secure-port={{ .Values.ports.https }}
{{- if .Values.certManager.enabled }}
- --tls-cert-file=/run/mcs-apiserver/tls.crt
- --tls-private-key-file=/run/mcs-apiserver/tls.key
{{- else }}
- --tls-cert-file=/run/mcs-apiserver/serving.pem
- --tls-private-key-file=/run/mcs-apiserver/serving.pem
{{- end }}
{{- if not (has "embedded" $storages) }}
# After SIGTERM, the server is not ready but serves, until no kube-proxy sends it new
# connections. A single replica would only delay its successor.
- --shutdown-delay-duration=10s
- --shutdown-send-retry-after
{{- end }}
{{- if and (has "cluster" $storages) (ne .Values.storage.namespace "mcs-storage") }}
- --storage-namespace={{ .Values.storage.namespace }}
{{- end }}
{{- if ne (join "," .Values.clusterSetIPRange) "243.0.0.0/8" }}
- --clusterset-ip-range={{ join "," .Values.clusterSetIPRange }}
{{- end }}
{{- with .Values.storage.migrateFrom }}
- --migrate-from={{ . }}
{{- end }}
{{- with .Values.apiserver.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Flags of mcs-controller. */}}
{{- define "mcs.controller.args" -}}
{{- if .Values.certManager.enabled }}
- --serving-ca-file=/run/mcs-apiserver/ca.crt
{{- else }}
- --serving-cert-dir=/run/mcs-apiserver
{{- end }}
{{- if ne (int .Values.ports.https) 6443 }}
- --apiserver=https://127.0.0.1:{{ .Values.ports.https }}
{{- end }}
{{- if ne (int .Values.ports.health) 8081 }}
- --health-address=:{{ .Values.ports.health }}
{{- end }}
{{- if ne (int .Values.ports.metrics) 8443 }}
- --metrics-address=:{{ .Values.ports.metrics }}
{{- end }}
{{- if ne .Values.storage.namespace "mcs-storage" }}
- --storage-namespace={{ .Values.storage.namespace }}
{{- end }}
{{- with .Values.controller.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Refuses values that values.schema.json cannot refuse with a message that says what to do. */}}
{{- define "mcs.validate" -}}
{{- if not (.Files.Get "files/kustomization.yaml") }}
{{- fail "the directory files of the chart is missing, a link to artifacts/default: use a Git client that supports links, or the chart of a release" }}
{{- end }}
{{- if or (eq .Release.Namespace "default") (hasPrefix "kube-" .Release.Namespace) }}
{{- fail (printf "namespace %q is used for other things, and mcs-apiserver reads all Secrets in its namespace: add --namespace mcs-system --create-namespace" .Release.Namespace) }}
{{- end }}
{{- if and (has "etcd" (include "mcs.storages" . | fromJsonArray)) (not .Values.storage.etcd.servers) }}
{{- fail (printf "storage.%s etcd requires the URLs of the etcd in storage.etcd.servers" (ternary "mode" "migrateFrom" (eq .Values.storage.mode "etcd"))) }}
{{- end }}
{{- if eq .Values.storage.mode .Values.storage.migrateFrom }}
{{- fail (printf "storage.migrateFrom %s is storage.mode: set it to the storage that the cluster used until now, or to nothing" .Values.storage.mode) }}
{{- end }}
{{- if eq .Values.storage.namespace .Release.Namespace }}
{{- fail (printf "storage.namespace %q is the namespace of the release: choose another one, which is used for nothing else" .Release.Namespace) }}
{{- end }}
{{- if ne (len (uniq (list (int .Values.ports.https) (int .Values.ports.health) (int .Values.ports.metrics)))) 3 }}
{{- fail (printf "ports.https %v, ports.health %v and ports.metrics %v must differ" .Values.ports.https .Values.ports.health .Values.ports.metrics) }}
{{- end }}
{{- if and .Values.certManager.enabled (not .Values.certManager.issuerRef.name) }}
{{- fail "certManager.enabled requires the name of an issuer in certManager.issuerRef.name" }}
{{- end }}
{{- if and .Values.priorityClass.quota (not .Values.priorityClass.name) }}
{{- fail "priorityClass.quota requires priorityClass.name" }}
{{- end }}
{{- $owned := dict
  "--namespace" "the namespace of the release"
  "--storage" "storage.mode"
  "--migrate-from" "storage.migrateFrom"
  "--storage-namespace" "storage.namespace"
  "--etcd-servers" "storage.etcd.servers"
  "--clusterset-ip-range" "clusterSetIPRange"
  "--secure-port" "ports.https"
  "--apiserver" "ports.https"
  "--health-address" "ports.health"
  "--metrics-address" "ports.metrics"
  "--tls-cert-file" "certManager"
  "--tls-private-key-file" "certManager"
  "--serving-cert-dir" "certManager"
  "--serving-ca-file" "certManager" -}}
{{- range $program := list "apiserver" "controller" }}
{{- range (index $.Values $program).extraArgs }}
{{- $name := first (splitList "=" .) }}
{{- if eq $name "--leader-elect-resource-name" }}
{{- fail (printf "%s.extraArgs must not contain %s: permissions and policies of the chart contain the default name" $program $name) }}
{{- end }}
{{- with get $owned $name }}
{{- fail (printf "%s.extraArgs must not contain %s: set %s instead, with which other objects of the chart agree" $program $name .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the Pod security standard restricted requires of a container. */}}
{{- define "mcs.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
