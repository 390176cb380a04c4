# SPDX-License-Identifier: Apache-2.0
"""What ``forcelab example`` runs."""
